#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace lockstep {

// The exceptions of ddp/. what() is a complete sentence; the class tells a caller whose mistake it
// is and what can be done. All of them are std::runtime_error.

// Base of the five below.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The library was used wrongly on one rank: what was given and what was expected. Raised on that
// rank alone; if an object with peers exists, their next waits end with its sentence.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Ranks differ where they must be equal, or one of them cannot take part. Raised with the same
// sentence on every rank; for models and options before any tensor is sent (docs/semantics.md 0.1).
class DisagreementError : public Error {
 public:
  using Error::Error;
};

// A backward pass could not be averaged on all ranks: one lacked a gradient, or threw. Raised with
// the same sentence on every rank at the end of that pass (a rank that threw gets its own exception
// instead), after which the object is usable again; gradients are then the local ones, or
// unspecified if they are views of buckets. Also raised by calls after a communication failure.
class UnfinishedReductionError : public Error {
 public:
  using Error::Error;
};

// In a join with throw_on_early_termination some ranks have no input left and others have. Raised
// on every rank, before anything of that step is sent, with the same sentence, which names the
// ranks and their numbers of forwards. The join is over; the object and the group stay usable.
class UnevenInputsError : public Error {
 public:
  using Error::Error;
};

// A collective failed or passed its deadline, or a peer reported that it cannot continue: the peer
// died, stopped, threw, or issued collectives in another order. The object is unusable until it
// gets another group.
class CommunicationError : public Error {
 public:
  // Units: `waited` is the time this rank spent in the wait, not the operation's own duration.
  CommunicationError(int rank, std::string operation, std::int64_t sequence_number,
                     std::chrono::milliseconds waited, const std::string& cause);

  int rank() const { return rank_; }
  // The operation, such as "all-reduce of gradient bucket 2".
  const std::string& operation() const { return operation_; }
  // How many collectives this instance had issued on this rank before this one; -1 in the
  // rendezvous.
  std::int64_t sequence_number() const { return sequence_number_; }
  std::chrono::milliseconds waited() const { return waited_; }

 private:
  int rank_;
  std::string operation_;
  std::int64_t sequence_number_;
  std::chrono::milliseconds waited_;
};

// The first line of what(): c10::Error appends the throwing stack.
std::string first_line(const std::exception& error);

}  // namespace lockstep
