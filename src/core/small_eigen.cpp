#include "small_eigen.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace labelprism {
namespace {

constexpr int kMaxSweeps = 60;
constexpr double kTiny = 1e-30;  // of the squared norm: what is left off the diagonal then is rounding

// Makes a(p, q) zero by a rotation of the axes p and q, which `axes` records: its rows are the axes. Rows lie side by
// side in memory, so they are turned first; columns have the same numbers but for four.
void rotate(SquareMatrix& a, SquareMatrix& axes, int p, int q) {
  if (a(p, q) == 0) return;
  const double theta = (a(q, q) - a(p, p)) / (2 * a(p, q));
  const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double cosine = 1 / std::sqrt(t * t + 1), sine = t * cosine;
  const auto turn = [&](SquareMatrix& rows) {
    double* __restrict const of_p = &rows(p, 0), * __restrict const of_q = &rows(q, 0);
    for (int k = 0; k < rows.n; ++k) {
      const double pk = of_p[k], qk = of_q[k];
      of_p[k] = cosine * pk - sine * qk;
      of_q[k] = sine * pk + cosine * qk;
    }
  };
  turn(a);
  turn(axes);
  for (const int i : {p, q}) {
    const double ip = a(i, p), iq = a(i, q);
    a(i, p) = cosine * ip - sine * iq;
    a(i, q) = sine * ip + cosine * iq;
  }
  for (int k = 0; k < a.n; ++k) {
    if (k == p || k == q) continue;
    a(k, p) = a(p, k);
    a(k, q) = a(q, k);
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
  SquareMatrix axes(n);
  for (int i = 0; i < n; ++i) axes(i, i) = 1;
  const double norm = std::inner_product(a.values.begin(), a.values.end(), a.values.begin(), 0.0);
  for (int sweep = 0; sweep < kMaxSweeps && off_diagonal(a) > kTiny * norm; ++sweep) {
    for (int p = 0; p < n; ++p) {
      for (int q = p + 1; q < n; ++q) rotate(a, axes, p, q);
    }
  }
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return a(i, i) > a(j, j); });
  Eigenpairs result{{}, SquareMatrix(n)};
  for (int j = 0; j < n; ++j) {
    result.values.push_back(a(order[j], order[j]));
    for (int i = 0; i < n; ++i) result.vectors(i, j) = axes(order[j], i);
  }
  return result;
}

}  // namespace labelprism
