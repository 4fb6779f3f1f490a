#include "ddp/batch_norm/exchange.h"

#include "ddp/agreement.h"
#include "ddp/errors.h"

#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

// The size of what travels first.
constexpr std::int64_t kWords = 5;

struct Header {
  std::int64_t fingerprint = 0;
  std::int64_t has_obstacle = 0;
  std::int64_t count = 0;
  std::int64_t input_needs_gradient = 0;
  std::int64_t has_backward = 0;
};

at::Tensor packed(const Header& header) {
  return torch::tensor(
      std::vector<std::int64_t>{header.fingerprint, header.has_obstacle, header.count,
                                header.input_needs_gradient, header.has_backward},
      at::kLong);
}

Header unpacked(const at::Tensor& words) {
  TORCH_INTERNAL_ASSERT(words.numel() == kWords);
  const auto* const at = words.const_data_ptr<std::int64_t>();
  return {at[0], at[1], at[2], at[3], at[4]};
}

std::vector<Header> gather_headers(Communicator& communicator, const BatchShare& mine,
                                   const std::string& declaration) {
  const Header header{.fingerprint = std::bit_cast<std::int64_t>(fingerprint(declaration)),
                      .has_obstacle = mine.declaration.obstacle ? 1 : 0,
                      .count = mine.count,
                      .input_needs_gradient = mine.input_needs_gradient,
                      .has_backward = mine.has_backward};
  std::vector<Header> headers;
  for (const at::Tensor& words : communicator.gather(
           packed(header), "exchange before a forward of SyncBatchNorm in training")) {
    headers.push_back(unpacked(words));
  }
  return headers;
}

bool agree_on_declarations(const std::vector<Header>& headers) {
  return std::all_of(headers.begin(), headers.end(), [&](const Header& each) {
    return each.has_obstacle == 0 && each.fingerprint == headers.front().fingerprint;
  });
}

// A rank whose output requires no gradient has no backward pass in which it could meet its peers.
void require_backward_everywhere(const std::vector<Header>& headers) {
  std::vector<Declaration> declarations;
  for (const Header& each : headers) {
    declarations.push_back({.statements = {{"whether the output of SyncBatchNorm requires a "
                                            "gradient, although some rank's input does",
                                            each.has_backward ? "true" : "false"}},
                            .obstacle = std::nullopt});
  }
  if (const auto sentence = find_disagreement(declarations)) throw DisagreementError(*sentence);
}

[[noreturn]] void refuse_one_value(const std::vector<Header>& headers) {
  const auto holder = std::find_if(headers.begin(), headers.end(),
                                   [](const Header& each) { return each.count > 0; });
  throw DisagreementError(
      "SyncBatchNorm in training needs more than one value per channel over all " +
      std::to_string(headers.size()) + " ranks of its group, and only rank " +
      std::to_string(holder - headers.begin()) + " has one");
}

BatchAgreement nothing(std::size_t channels) {
  const std::vector<double> zeros(channels, 0.0);
  return {.whole = {.count = 0, .averages = zeros, .squared_distances = zeros}};
}

BatchStatistics gather_statistics(Communicator& communicator, const BatchShare& mine,
                                  const std::vector<Header>& headers) {
  const BatchStatistics own = mine.statistics();
  std::vector<double> numbers = own.averages;
  numbers.insert(numbers.end(), own.squared_distances.begin(), own.squared_distances.end());
  const auto gathered = communicator.gather(torch::tensor(numbers, at::kDouble),
                                            "exchange of SyncBatchNorm's statistics");
  std::vector<BatchStatistics> by_rank;
  for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
    const auto* const averages = gathered[rank].const_data_ptr<double>();
    const auto* const squared = averages + mine.channels;
    by_rank.push_back({.count = headers[rank].count,
                       .averages = {averages, squared},
                       .squared_distances = {squared, squared + mine.channels}});
  }
  return merged(by_rank);
}

}  // namespace

BatchAgreement exchange(Communicator& communicator, const BatchShare& mine) {
  const std::string declaration = encode(mine.declaration);
  const std::vector<Header> headers = gather_headers(communicator, mine, declaration);
  if (!agree_on_declarations(headers)) disagree(communicator, declaration);
  BatchAgreement out;
  std::int64_t count = 0;
  for (const Header& each : headers) {
    count += each.count;
    out.some_input_needs_gradient |= each.input_needs_gradient != 0;
  }
  if (count == 1) refuse_one_value(headers);
  if (count == 0) return nothing(static_cast<std::size_t>(mine.channels));
  if (out.some_input_needs_gradient) require_backward_everywhere(headers);
  out.whole = gather_statistics(communicator, mine, headers);
  return out;
}

}  // namespace lockstep
