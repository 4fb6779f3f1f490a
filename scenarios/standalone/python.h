// The frame of a case as a program of its own, and the parts of it that families share. A family
// gives the model, the values and what a rank does; the frame runs that once on each rank, through
// DistributedDataParallel, and once for every rank on one process, which averages by hand.
#pragma once

#include "harness/base/dtype.h"
#include "harness/base/json.h"
#include "harness/base/values.h"
#include "harness/worlds/options.h"
#include "scenarios/standalone/standalone.h"

#include <string>
#include <utility>
#include <vector>

namespace lockstep::scenarios::standalone {

// A program in Python, of torch.distributed and torch.nn.parallel alone.
struct Python {
  int world = 1;
  std::string values = {};  // statements that name them
  std::string net;          // the body of class Net; __init__ takes the rank
  std::string base = "torch.nn.Module";
  std::string options = {};  // further arguments of DistributedDataParallel
  // The body of program(net, model, rank, no_sync), where `model` is `net` or its wrapper. It
  // yields (moment, exchange): one process calls `exchange`, such as average, with the models of
  // all ranks, and what ranks hold is compared, unless the moment is None.
  std::string program;
  // The compared values: a dictionary made of `net`.
  std::string held = "{name: each.grad for name, each in net.named_parameters()}";
  // The wrapped model and its no_sync, as expressions of `net`, if DistributedDataParallel around
  // it is not all.
  std::string wrap = {};
  std::string no_sync = "model.no_sync";
  // Gradients of parameters that no rank used since the last average stay each rank's own.
  bool keeps_unused = false;
  double tolerance = 0;  // relative; 0: equal bits
  int timeout_s = 60;    // of a collective whose peers do not come
};
std::string text_of(const Python& source);

// ", find_unused_parameters=True, bucket_cap_mb=9.5e-07". Throws NotWritten for an option that
// PyTorch does not have.
std::string arguments(const WrapOptions& options);

// A tensor's elements, in the order of its indices.
struct Numbers {
  std::vector<int64_t> shape;
  std::vector<double> values;
  Dtype dtype = Dtype::float32;
};

// Numbers as a case gives them: from `first` on, whole numbers of at most `most`, or any numbers
// between -1 and 1.
Numbers whole_numbers(Counter first, int64_t most, std::vector<int64_t> shape,
                      Dtype dtype = Dtype::float32);
Numbers real_numbers(Counter first, std::vector<int64_t> shape, Dtype dtype = Dtype::float32);

// "torch.tensor([[1.0, 2.0]])". Throws NotWritten for one that is too large to be read.
std::string literal(const Numbers& numbers);
std::string literal(double number);

// NAME = [...], each expression in a line of its own, with a comment that says what the list is by.
std::string table(const std::string& name, const std::string& by,
                  const std::vector<std::string>& expressions);

// "[1, 0]"; "[a, b]".
std::string list(const std::vector<int64_t>& numbers);
std::string list(const std::vector<std::string>& expressions);

// "forward, backward (2 times), update and 3 more": what happens one after the other; equal
// neighbours are counted, and of many parts the first ones are said.
std::string in_order(const std::vector<std::string>& parts);

// `text` with something else in place of each mark: {"%STEPS", "3"}.
std::string filled(std::string text,
                   const std::vector<std::pair<std::string, std::string>>& by_mark);

// `text` with each line that is not empty behind so many blanks.
std::string indented(const std::string& text, size_t blanks);

}  // namespace lockstep::scenarios::standalone
