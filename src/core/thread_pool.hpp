// A small thread pool that survives fork().
//
// Why not OpenMP: libgomp hangs in a forked child that uses it again, and a Python library cannot choose whether
// its users fork (multiprocessing, gunicorn, pytest-xdist).
#pragma once

#include <cstdint>
#include <functional>

namespace labelprism {

// Calls task(0), ..., task(n_tasks - 1), on at most n_threads threads of which the caller is one.
//
// Tasks are handed out in ascending order. What a task does must depend on its number only, never on the thread: then
// results are the same for every n_threads. The first exception, by task number, is rethrown to the caller once all
// running tasks have ended. Calls may nest and may come from several threads at once.
void parallel_for(std::int64_t n_tasks, int n_threads, const std::function<void(std::int64_t)>& task);

// Like parallel_for over the range [0, n) in pieces of `grain`: task(begin, end).
void parallel_ranges(std::int64_t n, std::int64_t grain, int n_threads,
                     const std::function<void(std::int64_t, std::int64_t)>& task);

}  // namespace labelprism
