#include "thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#ifndef _WIN32
#include <pthread.h>
#endif

namespace labelprism {
namespace {

// Who waits looks so many times before going to sleep, for some microseconds: some kernels have thousands of short jobs
// one right after the other, and to be woken up takes as long as one of these.
constexpr int kLooks = 1000;

inline void rest_a_little() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

template <class IsReady>
void look_for(const IsReady& is_ready) {
  for (int look = 0; look < kLooks && !is_ready(); ++look) rest_a_little();
}

// One call of parallel_for. It lives on the caller's stack: the caller leaves only after every helper has.
struct Job {
  Job(std::int64_t tasks, const std::function<void(std::int64_t)>& function) : n_tasks(tasks), task(function) {}

  void work() {
    while (!failed.load(std::memory_order_relaxed)) {
      const std::int64_t number = next.fetch_add(1, std::memory_order_relaxed);
      if (number >= n_tasks) return;
      try {
        task(number);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(error_mutex);
        if (!error || number < error_task) {
          error = std::current_exception();
          error_task = number;
        }
        failed.store(true, std::memory_order_relaxed);
      }
    }
  }

  const std::int64_t n_tasks;
  const std::function<void(std::int64_t)>& task;
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex error_mutex;
  std::exception_ptr error;
  std::int64_t error_task = 0;
  int seats = 0;                       // helpers that may still join; guarded by Pool::mutex_
  std::atomic<int> helpers_inside{0};  // changes while Pool::mutex_ is held
};

class Pool {
 public:
  void run(Job& job, int helpers) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      grow_to(helpers);
      job.seats = std::min(helpers, n_workers_);
      if (job.seats > 0) jobs_.push_back(&job);
      has_jobs_ = !jobs_.empty();
    }
    wake_.notify_all();
    job.work();
    const auto is_left = [&job] { return job.helpers_inside == 0; };
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      forget(&job);
    }
    look_for(is_left);
    std::unique_lock<std::mutex> lock(mutex_);
    left_.wait(lock, is_left);
  }

 private:
  void grow_to(int wanted) {
    try {
      for (; n_workers_ < wanted; ++n_workers_) std::thread([this] { serve(); }).detach();
    } catch (const std::system_error&) {
      // The system gives no more threads: the caller and the workers there are do the work.
    }
  }

  [[noreturn]] void serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return !jobs_.empty(); });
      Job& job = *jobs_.front();
      if (--job.seats == 0) forget(&job);
      ++job.helpers_inside;
      lock.unlock();
      job.work();
      lock.lock();
      if (--job.helpers_inside == 0) left_.notify_all();
      lock.unlock();  // the job may be gone from here on
      look_for([this] { return has_jobs_.load(); });
      lock.lock();
    }
  }

  void forget(Job* job) {
    jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), job), jobs_.end());
    has_jobs_ = !jobs_.empty();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable left_;
  std::deque<Job*> jobs_;
  std::atomic<bool> has_jobs_{false};
  int n_workers_ = 0;
};

// Never destroyed: workers wait on it until the process ends, and a forked child must not touch its parent's pool,
// whose locks may be held by threads that the child does not have.
std::atomic<Pool*> current_pool{nullptr};

#ifndef _WIN32
void forget_pool() { current_pool.store(nullptr); }
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
#endif

Pool& pool() {
  Pool* existing = current_pool.load();
  if (existing == nullptr) {
    Pool* created = new Pool;
    if (current_pool.compare_exchange_strong(existing, created)) return *created;
    delete created;  // another thread was faster; this one has no workers yet
  }
  return *existing;
}

constexpr int kMaxThreads = 512;

}  // namespace

void parallel_for(std::int64_t n_tasks, int n_threads, const std::function<void(std::int64_t)>& task) {
  const std::int64_t useful = std::min<std::int64_t>({n_tasks, n_threads, kMaxThreads});
  Job job(n_tasks, task);
  if (useful <= 1) {
    job.work();
  } else {
    pool().run(job, static_cast<int>(useful) - 1);
  }
  if (job.error) std::rethrow_exception(job.error);
}

void parallel_ranges(std::int64_t n, std::int64_t grain, int n_threads,
                     const std::function<void(std::int64_t, std::int64_t)>& task) {
  parallel_for((n + grain - 1) / grain, n_threads, [&](std::int64_t piece) {
    const std::int64_t begin = piece * grain;
    task(begin, std::min(begin + grain, n));
  });
}

}  // namespace labelprism
