// Likelihoods of true candidates, and the best candidates, by the weights of a blend: as Python sees them.
#include "bindings.hpp"
#include "blend_likelihood.hpp"

namespace labelprism {
namespace {

int checked_width(const Matrix<double>& features, const Vector<double>& weights) {
  require(1 <= features.shape(1) && features.shape(1) <= kMostBlendFeatures, "there must be 1 to 8 features");
  require(weights.size() == features.shape(1), "there must be a weight for every feature");
  return static_cast<int>(features.shape(1));
}

Candidates checked_candidates(const Vector<std::int64_t>& indptr, const Matrix<double>& features,
                              const Vector<double>& weights) {
  const int n_features = checked_width(features, weights);
  require(indptr.size() > 0 && indptr.data()[0] == 0, "indptr must begin with 0");
  const std::int64_t n_rows = static_cast<std::int64_t>(indptr.size()) - 1;
  bool ascending = true;
  for (std::int64_t r = 0; r < n_rows; ++r) ascending &= indptr.data()[r] <= indptr.data()[r + 1];
  require(ascending, "indptr must not descend");
  require(indptr.data()[n_rows] == static_cast<std::int64_t>(features.shape(0)),
          "indptr must end with the number of candidates");
  return {n_rows, indptr.data(), n_features, features.data()};
}

}  // namespace

void bind_blend(nb::module_& m) {
  m.def(
      "softmax_likelihood",
      [](Vector<std::int64_t> indptr, Matrix<double> features, Vector<double> share, Vector<double> weights,
         bool any_label, int n_threads) {
        const Candidates candidates = checked_candidates(indptr, features, weights);
        require(share.size() == features.shape(0), "there must be a share for every candidate");
        const std::size_t width = features.shape(1);
        Derivatives derivatives;
        NewArray<double> gradient = new_array({width}, &derivatives.gradient);
        NewArray<double> covariance = new_array({width, width}, &derivatives.covariance);
        NewArray<double> covariance_if_true = new_array({width, width}, &derivatives.covariance_if_true);
        double value;
        {
          const nb::gil_scoped_release release;
          value = softmax_likelihood(candidates, share.data(), weights.data(), any_label ? Wanted::kAny : Wanted::kAll,
                                     n_threads, derivatives);
        }
        return std::make_tuple(value, gradient, covariance, covariance_if_true);
      },
      array("indptr"), array("features"), array("share"), array("weights"), "any_label"_a, "n_threads"_a,
      "The log-likelihood of all or any true candidates of every row under a softmax of weighted features, its "
      "gradient, and the covariances of features by p and by p among the true ones.");
  m.def(
      "logistic_likelihood",
      [](Matrix<double> features, Vector<bool> is_true, Vector<double> weights) {
        const int n_features = checked_width(features, weights);
        require(is_true.size() == features.shape(0), "is_true must be of the length of features");
        const std::size_t width = features.shape(1);
        double* to_gradient;
        double* to_curvature;
        NewArray<double> gradient = new_array({width}, &to_gradient);
        NewArray<double> curvature = new_array({width, width}, &to_curvature);
        double value;
        {
          const nb::gil_scoped_release release;
          value = logistic_likelihood(static_cast<std::int64_t>(features.shape(0)), n_features, features.data(),
                                      is_true.data(), weights.data(), to_gradient, to_curvature);
        }
        return std::make_tuple(value, gradient, curvature);
      },
      array("features"), array("is_true"), array("weights"),
      "The log-likelihood of what is true under a logistic curve, its gradient, and its curvature with the sign "
      "turned.");
  m.def(
      "best_candidates",
      [](Vector<std::int64_t> indptr, Matrix<double> features, Vector<double> weights, std::int64_t n_best,
         int n_threads) {
        const Candidates candidates = checked_candidates(indptr, features, weights);
        require(n_best >= 1, "n_best must be at least 1");
        std::int64_t* to_best;
        NewArray<std::int64_t> best =
            new_array({static_cast<std::size_t>(candidates.n_rows), static_cast<std::size_t>(n_best)}, &to_best);
        {
          const nb::gil_scoped_release release;
          best_candidates(candidates, weights.data(), n_best, n_threads, to_best);
        }
        return best;
      },
      array("indptr"), array("features"), array("weights"), "n_best"_a, "n_threads"_a,
      "The candidates of every row whose weighted features are the largest, best first; -1 where there are no more.");
}

}  // namespace labelprism
