// labelprism._core: the kernels as Python sees them. Only the files whose names begin with `bindings` know Python.
#include "bindings.hpp"

NB_MODULE(_core, m) {
  m.doc() = "The native kernels of labelprism.";
  labelprism::bind_large_memory(m);
  labelprism::bind_rows(m);
  labelprism::bind_products(m);
  labelprism::bind_tree(m);
  labelprism::bind_growth(m);
  labelprism::bind_spread(m);
  labelprism::bind_forest(m);
  labelprism::bind_text(m);
  labelprism::bind_descend(m);
  labelprism::bind_heads(m);
  labelprism::bind_head_scores(m);
  labelprism::bind_one_vs_rest(m);
  labelprism::bind_near_examples(m);
  labelprism::bind_label_space(m);
  labelprism::bind_predictor(m);
  labelprism::bind_centroids(m);
  labelprism::bind_clusters(m);
  labelprism::bind_blend(m);
}
