#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace lockstep {

// What ddp/ throws. Every class carries a finished sentence in what(); the classes tell a caller
// whose mistake it is and what can be done. All of them are std::runtime_error.

// Base of the five below.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One rank was used wrongly: what was given and what was expected. Raised on that rank alone; where
// an object with peers is there to tell, their next waits end with its sentence.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Ranks that must be equal are not, or one of them cannot take part. Raised with the same sentence
// on every rank: of models and options before any tensor has travelled (docs/semantics.md 0.1).
class DisagreementError : public Error {
 public:
  using Error::Error;
};

// A backward pass could not be averaged on all ranks: one lacked a gradient, or threw. Raised with
// the same sentence on every rank at the end of that pass (a rank that threw gets its own exception
// instead), after which the object can go on; gradients are then the local ones, or of no use where
// they are views of buckets. Raised besides by what comes after a failure of communication.
class UnfinishedReductionError : public Error {
 public:
  using Error::Error;
};

// In a join with throw_on_early_termination some ranks have no input left and others have. Raised
// with the same sentence on every rank, which tells who and after how many forwards, before
// anything of that step was sent. The join is over; the object and the group are as good as before.
class UnevenInputsError : public Error {
 public:
  using Error::Error;
};

// A collective failed or passed its deadline, or a peer told that it cannot go on: it died,
// stopped, threw, or left the common order. The object cannot be used any more, unless it gets
// another group.
class CommunicationError : public Error {
 public:
  // Units: `waited` is the time this rank spent in the wait, not the operation's own duration.
  CommunicationError(int rank, std::string operation, std::int64_t sequence_number,
                     std::chrono::milliseconds waited, const std::string& cause);

  int rank() const { return rank_; }
  // What was going on, such as "all-reduce of bucket 2".
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

// The first line of what(): c10::Error appends the stack of whoever threw it.
std::string first_line(const std::exception& error);

}  // namespace lockstep
