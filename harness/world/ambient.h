// What a process has one of, and what a program therefore can change under everybody's feet: the
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

  // What `now` has otherwise, a sentence each: "grad mode was on and is off".
  std::vector<std::string> differences(const Ambient& now) const;

  // Those among them that a program has no business to leave: changes of the environment and of the
  // numbers of threads.
  std::vector<std::string> lasting_differences(const Ambient& now) const;

  // Puts all of it back, except the number of inter-op threads, which can be set only once.
  void restore() const;

 private:
  at::Tensor generator_;
  bool grad_mode_ = true;
  caffe2::TypeMeta default_dtype_;
  int intra_op_threads_ = 1;
  int inter_op_threads_ = 1;
  std::vector<std::string> environment_;  // "NAME=value"
  std::fenv_t floats_{};                  // how they are rounded, and whether flushed to zero
};

// What one of several ranks in this process has of its own: the default generator, the default
// dtype and the environment. Grad mode and the number of intra-op threads belong to threads anyway.
class RankAmbient {
 public:
  // As this process has it now, and `environment` besides.
  explicit RankAmbient(const std::map<std::string, std::string>& environment);
  RankAmbient(RankAmbient&&) = delete;

  // Exchanges what is here and what the process has: once as the rank begins to run, and once as it
  // stops. Cheap: of all this only the list of environment variables is copied.
  void swap();

 private:
  at::Generator generator_;
  caffe2::TypeMeta default_dtype_;
  std::vector<std::string> texts_;
  std::vector<char*> entries_;  // of the environment; null at the end
  bool is_running_ = false;
};

// Makes LibTorch of this process fit to be forked: one thread for everything, kernels and dispatch
// tables warm, the generator at a known seed. Runs no backward pass, which would start threads.
void warm_up_for_forks();

// Throws TierError, saying what is in the way, unless ranks can be forked from this process: a
// child of a process with threads, or with a pool of them, hangs sooner or later.
void require_forkable();

}  // namespace lockstep
