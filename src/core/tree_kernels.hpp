// What growing and using a label tree needs beside the eigenproblem: label counts of nodes, and margins of routers.
#pragma once

#include "csr.hpp"
#include "growing_csr.hpp"
#include "node_rows.hpp"

namespace labelprism {

// For every node the sum of the weights of the examples that have a label, for the labels that occur; sorted by label.
void label_counts(const CsrView& Y, const NodeGroups& groups, int n_threads, GrowingCsr& counts);

// routers.row(nodes[g]) . X.row(r) for every row r of every group g.
void router_margins(const CsrView& X, const CsrView& routers, const NodeGroups& groups, const std::int64_t* nodes,
                    int n_threads, float* margins);
void router_margins(const DenseView& X, const CsrView& routers, const NodeGroups& groups, const std::int64_t* nodes,
                    int n_threads, float* margins);

// out[r] = weights . X.row(r) for every row, with `weights` for all columns.
void single_margins(const CsrView& X, const float* weights, int n_threads, float* out);
void single_margins(const DenseView& X, const float* weights, int n_threads, float* out);

}  // namespace labelprism
