#include "ddp/errors.h"

#include <utility>

namespace lockstep {

namespace {

std::string place_in_order(std::int64_t sequence_number) {
  if (sequence_number < 0) return "";
  return " (collective " + std::to_string(sequence_number) + " of this instance)";
}

}  // namespace

CommunicationError::CommunicationError(int rank, std::string operation,
                                       std::int64_t sequence_number,
                                       std::chrono::milliseconds waited, const std::string& cause)
    : Error("rank " + std::to_string(rank) + ": " + operation + place_in_order(sequence_number) +
            " failed after " + std::to_string(waited.count()) + " ms: " + cause),
      rank_(rank),
      operation_(std::move(operation)),
      sequence_number_(sequence_number),
      waited_(waited) {}

std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace lockstep
