// The usual causes of exceptions and signals, and what a backend cannot: see usual_cause.h.
#include "harness/base/dtype.h"
#include "harness/verdict/usual_cause.h"

#include <algorithm>
#include <iterator>

namespace lockstep {

namespace {

// An exception of LibTorch or PyTorch, or a signal, by words of its text.
struct KnownException {
  std::string_view words;
  std::string_view cause;
};

constexpr KnownException kByException[] = {
    {"Can't detach views in-place",
     "detach_() on gradients that are views of buckets (gradient_as_bucket_view), which "
     "zero_grad(/*set_to_none=*/false) calls in C++: call zero_grad()"},
    {"modified by an inplace operation",
     "two forwards before one backward: the second broadcasts the buffers of BatchNorm in place: "
     "use one forward, or broadcast_buffers=False; without buffers, an in-place operation of the "
     "model"},
    {"expect_autograd_hooks_",
     "static_graph=True queues its first reduction inside no_sync, too (PyTorch issue 143580): run "
     "the first forward and its backward outside of no_sync"},
    {"marked as ready twice",
     "a parameter gets its gradient twice in one backward: a reentrant checkpoint "
     "(use_reentrant=False is the cure), or a module that several forwards share"},
    {"mark a variable ready only once",
     "a parameter gets its gradient twice in one backward: a reentrant checkpoint "
     "(use_reentrant=False is the cure), or a module that several forwards share"},
    {"not compatible with static_graph",
     "static_graph=True, and the first pass ran inside no_sync (PyTorch issue 143580: run the "
     "first forward and its backward outside), or passes use different parameters"},
    {"did not receive grad",
     "parameters of the forward take no part in the loss on some rank: "
     "find_unused_parameters=True, or leave them out of the model"},
    {"Expected to have finished reduction",
     "parameters of the forward take no part in the loss on some rank: "
     "find_unused_parameters=True, or leave them out of the model"},
    {"was ended by SIGABRT",
     "an uncaught C++ exception, abort() or a corrupt heap; Gloo ends so, too, where the sizes of "
     "a collective differ: read the stack and the rank's log"},
    {"was ended by SIGSEGV",
     "native code used memory that is freed or is not its own: read the stack"},
    {"was ended by SIGKILL",
     "memory ran out (the kernel's OOM killer), or a limit of the job: read dmesg"},
};

}  // namespace

std::string usual_cause_of_exception(const std::string& what) {
  const auto known = std::find_if(
      std::begin(kByException), std::end(kByException),
      [&](const KnownException& each) { return what.find(each.words) != std::string::npos; });
  return known == std::end(kByException) ? "" : std::string(known->cause);
}

std::string backend_limit(const Collective& one) {
  const auto dtype = value_of_word<Dtype>(one.dtype);
  if (!dtype || gloo_carries(*dtype, one.op)) return "";
  return "Gloo's " + one.op + " carries no " + one.dtype + ": take another dtype for what is sent";
}

}  // namespace lockstep
