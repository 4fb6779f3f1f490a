// State of which a process has one copy, so that a program can change it for all others: the
// default generator, grad mode, the default dtype, the numbers of threads, the environment.
#pragma once

#include <torch/torch.h>

#include <cfenv>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

class Ambient {
 public:
  static Ambient capture();

  // Returns what differs in `now`, a sentence each: "grad mode was on and is off".
  std::vector<std::string> differences(const Ambient& now) const;

  // The differences that a program must not leave behind: changes of the environment and of the
  // numbers of threads.
  std::vector<std::string> lasting_differences(const Ambient& now) const;

  // Restores everything except the number of inter-op threads, which can be set only once.
  void restore() const;

 private:
  at::Tensor generator_;
  bool grad_mode_ = true;
  caffe2::TypeMeta default_dtype_;
  int intra_op_threads_ = 1;
  int inter_op_threads_ = 1;
  std::vector<std::string> environment_;  // "NAME=value"
  std::fenv_t floats_{};                  // rounding mode and flushing to zero
};

// The ambient state of one of several ranks in this process: the default generator, the default
// dtype and the environment. Grad mode and the number of intra-op threads are per thread already.
class RankAmbient {
 public:
  // Captures the state of this process, and adds `environment`.
  explicit RankAmbient(const std::map<std::string, std::string>& environment);
  RankAmbient(RankAmbient&&) = delete;

  // Exchanges the state held here with the process's: once as the rank begins to run, and once as
  // it stops. Cheap: it copies only the list of environment variables.
  void swap();

 private:
  at::Generator generator_;
  caffe2::TypeMeta default_dtype_;
  std::vector<std::string> texts_;
  std::vector<char*> entries_;  // of the environment; null at the end
  bool is_running_ = false;
};

// Prepares LibTorch of this process for forks: one thread for everything, kernels and dispatch
// tables warm, the generator at a known seed. Runs no backward pass, which would start threads.
void warm_up_for_forks();

// Throws TierError if LibTorch is set to more than one intra-op thread: a child of a process with a
// pool of them hangs sooner or later.
void require_one_intra_op_thread();

}  // namespace lockstep
