#include "small_eigen.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace labelprism {
namespace {

constexpr int kMaxSweeps = 60;
constexpr double kTiny = 1e-30;  // of the squared norm: what is left off the diagonal then is rounding

// Makes a(p, q) zero by a rotation of the axes p and q, which `vectors` records.
void rotate(SquareMatrix& a, SquareMatrix& vectors, int p, int q) {
  if (a(p, q) == 0) return;
  const double theta = (a(q, q) - a(p, p)) / (2 * a(p, q));
  const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double cosine = 1 / std::sqrt(t * t + 1), sine = t * cosine;
  for (int k = 0; k < a.n; ++k) {
    const double kp = a(k, p), kq = a(k, q);
    a(k, p) = cosine * kp - sine * kq;
    a(k, q) = sine * kp + cosine * kq;
  }
  for (int k = 0; k < a.n; ++k) {
    const double pk = a(p, k), qk = a(q, k);
    a(p, k) = cosine * pk - sine * qk;
    a(q, k) = sine * pk + cosine * qk;
    const double vp = vectors(k, p), vq = vectors(k, q);
    vectors(k, p) = cosine * vp - sine * vq;
    vectors(k, q) = sine * vp + cosine * vq;
  }
}

double off_diagonal(const SquareMatrix& a) {
  double sum = 0;
  for (int i = 0; i < a.n; ++i) {
    for (int j = 0; j < i; ++j) sum += a(i, j) * a(i, j);
  }
  return sum;
}

}  // namespace

Eigenpairs symmetric_eigen(SquareMatrix a) {
  const int n = a.n;
  SquareMatrix vectors(n);
  for (int i = 0; i < n; ++i) vectors(i, i) = 1;
  const double norm = std::inner_product(a.values.begin(), a.values.end(), a.values.begin(), 0.0);
  for (int sweep = 0; sweep < kMaxSweeps && off_diagonal(a) > kTiny * norm; ++sweep) {
    for (int p = 0; p < n; ++p) {
      for (int q = p + 1; q < n; ++q) rotate(a, vectors, p, q);
    }
  }
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return a(i, i) > a(j, j); });
  Eigenpairs result{{}, SquareMatrix(n)};
  for (int j = 0; j < n; ++j) {
    result.values.push_back(a(order[j], order[j]));
    for (int i = 0; i < n; ++i) result.vectors(i, j) = vectors(i, order[j]);
  }
  return result;
}

}  // namespace labelprism
