#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

class Communicator;
struct Operation;

// One bucket of a synchronised backward pass, full on this rank, as a communication hook receives
// it. Local. Source: c10d::GradBucket.
class GradBucket {
 public:
  GradBucket(std::size_t index, bool is_first, bool is_last, at::Tensor buffer,
             std::vector<at::Tensor> gradients, std::vector<at::Tensor> parameters)
      : index_(index),
        is_first_(is_first),
        is_last_(is_last),
        buffer_(std::move(buffer)),
        gradients_(std::move(gradients)),
        parameters_(std::move(parameters)) {}

  // The position in launch order. Buckets are planned anew once, at the second synchronised
  // forward: until then an index means other parameters.
  std::size_t index() const { return index_; }
  // The first that the hook receives in this pass, which need not be that of index 0: buckets of
  // sparse gradients, and those that are skipped, have an index too.
  bool is_first() const { return is_first_; }
  bool is_last() const { return is_last_; }

  // This rank's gradients, not divided: 1-D, contiguous, of the gradients' dtype (complex numbers
  // as pairs of real ones), on their device. The memory is the hook's until the pass ends.
  const at::Tensor& buffer() const { return buffer_; }

  // Replaces what buffer() returns and gradients() are views of, by a 1-D contiguous tensor with as
  // many elements, of any dtype: a hook that calls another one gives it other values. Throws
  // UsageError.
  void set_buffer(at::Tensor buffer);

  // Views of buffer(), one for each parameter, in its shape; complex ones too, unless set_buffer()
  // gave a dtype without complex numbers: then pairs are their last dimension.
  const std::vector<at::Tensor>& gradients() const { return gradients_; }
  const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  std::size_t index_;
  bool is_first_, is_last_;
  at::Tensor buffer_;
  std::vector<at::Tensor> gradients_, parameters_;
};

// A collective that a hook has started.
class StartedCollective {
 public:
  explicit StartedCollective(Communicator& communicator, Operation operation);

  // Blocks until it is over (on a device: until the current stream waits for it). Once. Throws
  // CommunicationError.
  void wait();

  // The same, for an all-gather: every rank's tensor, 1-D, in rank order.
  std::vector<at::Tensor> wait_for_parts();

 private:
  Communicator* communicator_;
  std::shared_ptr<Operation> operation_;
};

// The collectives of the instance, for its hook. They are part of the instance's order: every rank
// must start the same ones, on tensors of equal size and dtype. Errors name them, and they end by
// the instance's timeout or with a peer's error. Starting one is Collective, does not block, and
// throws CommunicationError.
class HookCollectives {
 public:
  // `divisor`: what sums are divided by. `bucket`: for errors, such as "gradient bucket 2".
  HookCollectives(Communicator& communicator, int divisor, std::string bucket,
                  bool is_first_pass = false)
      : communicator_(communicator),
        divisor_(divisor),
        bucket_(std::move(bucket)),
        is_first_pass_(is_first_pass) {}

  int rank() const;
  int world_size() const;

  // Divides a sum over the ranks into their average: the world size, or in a join the number of
  // ranks that have inputs.
  int divisor() const { return divisor_; }

  // True in the first pass since construction, update_process_group() or
  // update_trainable_parameters(), and again until one has ended well: on all ranks alike, whatever
  // the hook of each has been through. There a hook with a state compares it. False for buffers.
  bool is_first_pass() const { return is_first_pass_; }

  // Replaces `tensor`, which is contiguous, by its sum over the ranks.
  StartedCollective all_reduce(const at::Tensor& tensor);

  // Gathers `tensor` of at least one element.
  StartedCollective all_gather(const at::Tensor& tensor);

 private:
  Communicator& communicator_;
  int divisor_;
  std::string bucket_;
  bool is_first_pass_;
};

// The work that a hook has started for a bucket, and how that ends.
class HookResult {
 public:
  using Finish = std::function<at::Tensor()>;

  // `finish` returns the bucket's average: as many elements as the bucket's buffer, of its dtype
  // and on its device. It is called once, after autograd is done, on every rank in launch order, so
  // it may wait, compute, and start further collectives.
  explicit HookResult(Finish finish) : finish_(std::move(finish)) {}

  // The average is in this tensor already.
  explicit HookResult(at::Tensor average)
      : HookResult([average = std::move(average)] { return average; }) {}

  // It is there, or finish() is called, when this collective of the program's own is over.
  HookResult(c10::intrusive_ptr<c10d::Work> work, at::Tensor average)
      : HookResult(std::move(work), Finish([average = std::move(average)] { return average; })) {}
  HookResult(c10::intrusive_ptr<c10d::Work> work, Finish finish)
      : finish_(std::move(finish)), work_(std::move(work)) {}

  const Finish& finish() const { return finish_; }
  const c10::intrusive_ptr<c10d::Work>& work() const { return work_; }

 private:
  Finish finish_;
  c10::intrusive_ptr<c10d::Work> work_;
};

// Replaces what DistributedDataParallel does with a full bucket: the all-reduce of gradients
// divided by the world size. One object serves one instance, for all its buckets, so it may keep
// state from pass to pass. An exception that it throws ends the instance on every rank: waits of
// the peers end with its sentence.
class CommunicationHook {
 public:
  virtual ~CommunicationHook() = default;

  // Its name and settings, which must be equal on all ranks: "fp16_compress".
  virtual std::string description() const = 0;

  // Called for every bucket of a synchronised pass once it is full, in launch order, on a thread
  // that runs the backward pass; in a join also on a rank that has no inputs left, with zeros.
  // Sparse gradients are averaged without it, and a bucket that no rank uses is not sent.
  virtual HookResult run(GradBucket& bucket, HookCollectives& collectives) = 0;
};

}  // namespace lockstep
