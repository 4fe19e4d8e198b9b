// The sums of nodes whose rows are spread over chunks, as Python sees them.
#include "bindings.hpp"
#include "spread_sums.hpp"

namespace labelprism {
namespace {

using Sums = NewArray<float>;

// A chunk that was checked once, for all nodes that ask it; the arrays stay as long as it does.
class BoundChunk {
 public:
  BoundChunk(Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<float> data, std::int64_t n_features,
             Vector<std::int64_t> label_indptr, Vector<std::int32_t> labels, std::int64_t n_labels)
      : indptr_(indptr),
        indices_(indices),
        data_(data),
        label_indptr_(label_indptr),
        labels_(labels),
        rows_{checked_csr(indptr, indices, data, n_features), checked_labels(label_indptr, labels, n_labels)} {
    require(rows_.X.n_rows == rows_.Y.n_rows, "X and Y must have the same number of rows");
    require(rows_.X.n_rows <= INT32_MAX, "there must be at most 2147483647 rows");
  }

  const ChunkRows& rows() const { return rows_; }
  std::size_t n_features() const { return static_cast<std::size_t>(rows_.X.n_columns); }
  std::size_t n_labels() const { return static_cast<std::size_t>(rows_.Y.n_columns); }

  NodeRows node(const Vector<std::int32_t>& rows, const Vector<float>& weight) const {
    require(rows.size() == weight.size(), "there must be a weight for every member");
    require(all_below(rows.data(), rows.size(), rows_.X.n_rows), "a member is out of range");
    return {rows.data(), weight.data(), static_cast<std::int64_t>(rows.size())};
  }

  const float* of_features(const Vector<float>& values) const {
    require(values.size() == n_features(), "there must be a value for every feature");
    return values.data();
  }

  const float* of_features(const Matrix<float>& table, std::size_t width) const {
    require(table.shape(0) == n_features() && table.shape(1) == width, "a table of features has the wrong shape");
    return table.data();
  }

  const float* of_labels(const Matrix<float>& table, std::size_t width) const {
    require(table.shape(0) == n_labels() && table.shape(1) == width, "a table of labels has the wrong shape");
    return table.data();
  }

 private:
  Vector<std::int64_t> indptr_;
  Vector<std::int32_t> indices_;
  Vector<float> data_;
  Vector<std::int64_t> label_indptr_;
  Vector<std::int32_t> labels_;
  ChunkRows rows_;
};

const float* means_of_block(const Vector<float>& means) {
  require(means.size() == 8, "there must be 8 means");
  return means.data();
}

std::tuple<Sums, NewArray<std::int32_t>, Sums> count(const BoundChunk& self, Vector<std::int32_t> rows,
                                                     Vector<float> weight) {
  const NodeRows node = self.node(rows, weight);
  float *label_mass, *feature_sums;
  std::int32_t* feature_rows;
  Sums masses = new_array({self.n_labels()}, &label_mass);
  NewArray<std::int32_t> counts = new_array({self.n_features()}, &feature_rows);
  Sums sums = new_array({self.n_features()}, &feature_sums);
  {
    const nb::gil_scoped_release release;
    count_rows(self.rows(), node, label_mass, feature_rows, feature_sums);
  }
  return {masses, counts, sums};
}

Sums code_sums(const BoundChunk& self, Vector<std::int32_t> rows, Vector<float> weight, Matrix<float> codes,
               Vector<float> means) {
  const NodeRows node = self.node(rows, weight);
  const float *from = self.of_labels(codes, 8), *centre = means_of_block(means);
  float* out;
  Sums features = new_array({self.n_features(), 8}, &out);
  {
    const nb::gil_scoped_release release;
    features_of_codes(self.rows(), node, from, centre, out);
  }
  return features;
}

std::tuple<Sums, std::optional<NewArray<double>>> feature_sums(const BoundChunk& self, Vector<std::int32_t> rows,
                                                               Vector<float> weight, Matrix<float> features,
                                                               Vector<float> means, bool with_moments) {
  const NodeRows node = self.node(rows, weight);
  const float *from = self.of_features(features, 8), *centre = means_of_block(means);
  float* out;
  double* squares = nullptr;
  Sums labels = new_array({self.n_labels(), 8}, &out);
  std::optional<NewArray<double>> moments;
  if (with_moments) moments = new_array({8, 8}, &squares);
  {
    const nb::gil_scoped_release release;
    labels_of_features(self.rows(), node, from, centre, out, squares);
  }
  return {labels, moments};
}

Sums sides(const BoundChunk& self, Vector<std::int32_t> rows, Vector<float> weight, Vector<float> weights, float offset,
           float mean, float scale) {
  const NodeRows node = self.node(rows, weight);
  const Margin margin{self.of_features(weights), offset, mean, scale};
  float* out;
  Sums sums = new_array({self.n_labels()}, &out);
  {
    const nb::gil_scoped_release release;
    sides_of_labels(self.rows(), node, margin, out);
  }
  return sums;
}

std::tuple<Sums, std::optional<Sums>> gradient(const BoundChunk& self, Vector<std::int32_t> rows, Vector<float> weight,
                                               Matrix<float> votes, float cost, Vector<float> weights, float offset,
                                               bool with_diagonal) {
  const NodeRows node = self.node(rows, weight);
  const LabelVotes table{self.of_labels(votes, 2), cost};
  const Margin margin{self.of_features(weights), offset, 0, 1};
  float *first, *second = nullptr;
  Sums slopes = new_array({self.n_features() + 1}, &first);
  std::optional<Sums> diagonal;
  if (with_diagonal) diagonal = new_array({self.n_features() + 1}, &second);
  {
    const nb::gil_scoped_release release;
    hinge_gradient(self.rows(), node, table, margin, first, second);
  }
  return {slopes, diagonal};
}

NewArray<double> search(const BoundChunk& self, Vector<std::int32_t> rows, Vector<float> weight, Matrix<float> votes,
                        float cost, Matrix<float> pairs, std::pair<float, float> offset, std::pair<float, float> mean,
                        Vector<float> steps) {
  const NodeRows node = self.node(rows, weight);
  const LabelVotes table{self.of_labels(votes, 2), cost};
  const MarginLine line{self.of_features(pairs, 2), offset.first, offset.second, mean.first, mean.second};
  require(steps.size() <= kMostSteps, "a line search looks at 16 steps at most");
  double* out;
  NewArray<double> sums = new_array({2, steps.size()}, &out);
  {
    const nb::gil_scoped_release release;
    line_search(self.rows(), node, table, line, steps.data(), static_cast<int>(steps.size()), out, out + steps.size());
  }
  return sums;
}

Sums margins(const BoundChunk& self, Vector<std::int32_t> rows, Vector<float> weight, Vector<float> weights) {
  const NodeRows node = self.node(rows, weight);
  const float* from = self.of_features(weights);
  float* out;
  Sums found = new_array({rows.size()}, &out);
  {
    const nb::gil_scoped_release release;
    margins_of(self.rows(), node, from, out);
  }
  return found;
}

double mass_to_the_right(const BoundChunk& self, Vector<std::int32_t> rows, Vector<float> weight, Vector<float> weights,
                         float bias, float noise) {
  const NodeRows node = self.node(rows, weight);
  const SpreadRouter router{self.of_features(weights), bias, noise};
  const nb::gil_scoped_release release;
  return right_mass(self.rows(), node, router);
}

using Side = std::pair<NewArray<std::int32_t>, NewArray<float>>;

std::pair<Side, Side> route(const BoundChunk& self, Vector<std::int32_t> rows, Vector<float> weight,
                            Vector<float> weights, float bias, float noise, std::uint64_t key, std::uint64_t first_row,
                            float prune_below) {
  const NodeRows node = self.node(rows, weight);
  const SpreadRouter router{self.of_features(weights), bias, noise};
  RoutedRows sides;
  {
    const nb::gil_scoped_release release;
    route_rows(self.rows(), node, router, key, first_row, prune_below, sides);
  }
  return {{take(sides.rows[0]), take(sides.weight[0])}, {take(sides.rows[1]), take(sides.weight[1])}};
}

}  // namespace

void bind_spread(nb::module_& m) {
  nb::class_<BoundChunk>(m, "ChunkRows", "Some rows of the data, which spread nodes ask for sums; see spread_sums.hpp.")
      .def(nb::init<Vector<std::int64_t>, Vector<std::int32_t>, Vector<float>, std::int64_t, Vector<std::int64_t>,
                    Vector<std::int32_t>, std::int64_t>(),
           array("indptr"), array("indices"), array("data"), "n_features"_a, array("label_indptr"), array("labels"),
           "n_labels"_a)
      .def_prop_ro("n_features", &BoundChunk::n_features)
      .def_prop_ro("n_labels", &BoundChunk::n_labels)
      .def("count", &count, array("rows"), array("weight"),
           "The mass of every label; of every feature its rows, and the weighted sum of its values.")
      .def("features_of_codes", &code_sums, array("rows"), array("weight"), array("codes"), array("means"),
           "X'D (Y codes - means) for codes of labels (c, 8).")
      .def("labels_of_features", &feature_sums, array("rows"), array("weight"), array("features"), array("means"),
           "with_moments"_a, "Y'D (X features - means) for a block (d, 8), and the second moments (8, 8) if wanted.")
      .def("sides_of_labels", &sides, array("rows"), array("weight"), array("weights"), "offset"_a, "mean"_a, "scale"_a,
           "The weighted sums of the margins of each label's rows: seen from the mean, scaled, cut at 3.")
      .def("gradient", &gradient, array("rows"), array("weight"), array("votes"), "cost"_a, array("weights"),
           "offset"_a, "with_diagonal"_a, "The gradient of the loss (d + 1,), and the second derivatives if wanted.")
      .def("search", &search, array("rows"), array("weight"), array("votes"), "cost"_a, array("pairs"), "offset"_a,
           "mean"_a, array("steps"), "The loss, and the sizes of centred margins, at steps of a line: (2, n_steps).")
      .def("margins", &margins, array("rows"), array("weight"), array("weights"), "w.x of every member.")
      .def("right_mass", &mass_to_the_right, array("rows"), array("weight"), array("weights"), "bias"_a, "noise"_a,
           "The mass that goes right.")
      .def("route", &route, array("rows"), array("weight"), array("weights"), "bias"_a, "noise"_a, "key"_a,
           "first_row"_a, "prune_below"_a, "Rows and weights that go left, and those that go right.");
}

}  // namespace labelprism
