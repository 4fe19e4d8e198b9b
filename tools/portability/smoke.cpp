// What the native core computes on a fixed problem, as one line for each part: a name, and a hash of all bits.
//
// `tools/portability/check` builds it with every compiler at hand and compares the lines: an ARM processor, another
// compiler and another standard library must compute what GCC on x86-64 does. No Python is needed.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "block_products.hpp"
#include "forest_growth.hpp"
#include "large_memory.hpp"
#include "one_vs_rest.hpp"
#include "sparse_text.hpp"
#include "text_hash.hpp"
#include "thread_pool.hpp"
#include "top_k.hpp"

using namespace labelprism;

namespace {

constexpr std::int64_t kRows = 600, kFeatures = 200, kLabels = 60;
constexpr int kThreads = 3;

template <class T>
void print(const char* name, const T* values, std::size_t count) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  const auto* bytes = reinterpret_cast<const unsigned char*>(values);
  for (std::size_t i = 0; i < count * sizeof(T); ++i) hash = (hash ^ bytes[i]) * 1099511628211u;
  std::printf("%s %016llx\n", name, static_cast<unsigned long long>(hash));
}

// Numbers that are the same everywhere.
class Random {
 public:
  std::uint32_t below(std::uint32_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(((state_ >> 33) * n) >> 31);
  }

 private:
  std::uint64_t state_ = 1;
};

struct Problem {
  std::vector<std::int64_t> x_indptr{0}, y_indptr{0};
  std::vector<std::int32_t> x_indices, y_indices;
  std::vector<float> x_data;

  Problem() {
    Random random;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto label = static_cast<std::int32_t>(random.below(kLabels));
      std::int32_t feature = -1;
      for (int t = 0; t < 12 && (feature += 1 + static_cast<std::int32_t>(random.below(25))) < kFeatures; ++t) {
        x_indices.push_back(feature);
        x_data.push_back(feature % kLabels == label ? 1.0f : 0.01f * static_cast<float>(1 + random.below(50)));
      }
      x_indptr.push_back(static_cast<std::int64_t>(x_indices.size()));
      y_indices.push_back(label);
      if (label + 7 < kLabels) y_indices.push_back(label + 7);
      y_indptr.push_back(static_cast<std::int64_t>(y_indices.size()));
    }
  }

  CsrView X() const { return {kRows, kFeatures, x_indptr.data(), x_indices.data(), x_data.data()}; }
  CsrView Y() const { return {kRows, kLabels, y_indptr.data(), y_indices.data(), nullptr}; }
};

void products(const Problem& problem) {
  for (const std::int64_t width : {8, 16, 11}) {
    Random random;
    std::vector<float> block(static_cast<std::size_t>(kFeatures * width));
    for (float& value : block) value = 0.001f * static_cast<float>(random.below(2000)) - 1;
    std::vector<float> out(static_cast<std::size_t>(kRows * width)), back(block.size());
    csr_times_block(problem.X(), block.data(), width, kThreads, out.data());
    csr_transposed_times_block(problem.X(), nullptr, out.data(), width, kThreads, back.data());
    print("products", back.data(), back.size());
    std::vector<std::int32_t> best(static_cast<std::size_t>(kRows * 3));
    std::vector<float> scores(best.size());
    top_k_dense(out.data(), kRows, width, 3, kThreads, best.data(), scores.data());
    print("top-k", best.data(), best.size());
  }
}

void forest(const Problem& problem, int sketch_steps, int rounds) {
  const SpectralSettings spectral{3, 24, false, 0.0f, 5};
  ForestSettings settings{};
  settings.n_trees = 2;
  settings.max_depth = 6;
  settings.stop_labels = 4;
  settings.min_rows = 8;
  settings.target_recall = 0.95;
  settings.smallest_share = 0.05;
  settings.noise = settings.growth_noise = 0.25f;
  settings.fractional = true;
  settings.prune_below = 0.1f;
  settings.spectral_rows = settings.router_rows = 500;
  settings.min_feature_rows = 1;
  settings.sketch_steps = sketch_steps;
  settings.drop_weight = settings.drop_share = 0.01f;
  settings.seed = 3;
  settings.spectral = spectral;
  settings.refinement = RefinementSettings{};
  settings.refinement.rounds = rounds;
  settings.refinement.passes = 4;
  settings.refinement.cost = 1;
  GrowingNodes roots;
  std::vector<std::int32_t> rows(kRows);
  std::vector<float> weight(kRows, 1.0f);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i);
  for (const std::uint64_t key : root_keys(settings)) roots.push(key, {rows.data(), weight.data(), kRows});
  ForestGrower grower(settings, std::move(roots), 0);
  while (!grower.is_done()) grower.step(problem.X(), problem.Y(), nullptr, kThreads, nullptr);
  Forest& grown = grower.forest();
  print("forest-children", grown.child.data(), grown.child.size());
  print("forest-routers", grown.routers.data.data(), grown.routers.data.size());
  print("forest-leaves", grown.leaves.data.data(), grown.leaves.data.size());
}

void classifiers(const Problem& problem) {
  const CsrView Y = problem.Y();
  const LabelExamples examples = examples_by_label(Y, Y, {0, kLabels});
  OneVsRestModel model;
  fit_one_vs_rest(problem.X(), examples, nullptr, nullptr, nullptr, {1.0f, 1.0f, 3.0f, 0.1f, 10, 0.01f, 7}, kThreads,
                  nullptr, model);
  print("classifiers", model.weights.data.data(), model.weights.data.size());
}

void texts() {
  const std::string words = "Ein Schiff im Sturm \xe2\x80\x94 \xe8\x88\xb9\xe3\x81\xae\xe7\xb5\xb5, na\xc3\xafve \xd0\x9c\xd0\x98\xd0\xa0";
  const std::int64_t offsets[] = {0, static_cast<std::int64_t>(words.size())};
  GrowingCsr rows;
  hash_texts({words.data(), offsets, 1}, {Analyzer::kWord, 1, 2, 18, 1, true, true, 1}, 1, rows);
  print("words", rows.indices.data(), rows.indices.size());
  GrowingCsr characters;
  hash_texts({words.data(), offsets, 1}, {Analyzer::kCharInWord, 2, 4, 18, 2, true, true, 1}, 1, characters);
  print("characters", characters.indices.data(), characters.indices.size());
}

void numbers() {
  const std::string text =
      "3,1 5:0.1 2:1e-3 7:16777217 9:3.4028235e38 11:1.17549435082228750797e-38\n"
      "2 1:.5 3:2.5000000000000000000000001 4:1e-45 6:123456789012345678901234567890e-20\n";
  SparseTextParser parser{SparseTextOptions{}};
  const bool is_read = parser.feed(text.data(), text.size()) && parser.finish();
  std::printf("parsed %d\n", is_read);
  print("parsed-values", parser.values.data(), parser.values.size());
  const CsrView labels{2, 4, parser.label_indptr.data(), parser.labels.data(), nullptr};
  const CsrView features{2, 12, parser.feature_indptr.data(), parser.features.data(), parser.values.data()};
  std::fputs(format_sparse_text(labels, features, 0, 0, 2).c_str(), stdout);
}

void memory() {
  auto* values = static_cast<unsigned char*>(large_allocate(std::size_t{5} << 20));
  for (std::size_t i = 0; i < std::size_t{5} << 20; ++i) values[i] = static_cast<unsigned char>(i * 31);
  values = static_cast<unsigned char*>(large_reallocate(values, std::size_t{9} << 20));
  print("memory", values, std::size_t{5} << 20);
  large_free(values);
}

}  // namespace

int main() {
  const Problem problem;
  products(problem);
  forest(problem, 0, 0);   // the eigenproblem
  forest(problem, 12, 1);  // the sketch and refined routers
  classifiers(problem);
  texts();
  numbers();
  memory();
  return 0;
}
