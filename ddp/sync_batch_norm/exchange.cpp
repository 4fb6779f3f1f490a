#include "ddp/sync_batch_norm/exchange.h"

#include "ddp/consistency/agreement.h"
#include "ddp/errors.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

// The layout of the first gather: a header, and room for averages and squared distances.
constexpr std::size_t kHeaderWords = 5, kChannelsInFirst = 512;
constexpr std::size_t kRoom = 2 * kChannelsInFirst, kWords = kHeaderWords + kRoom;

struct Header {
  std::int64_t fingerprint = 0;
  std::int64_t has_validation_error = 0;
  std::int64_t count = 0;
  std::int64_t input_needs_gradient = 0;
  std::int64_t has_backward = 0;
};

// A rank's averages and squared distances, one after the other.
using Numbers = std::vector<double>;

struct Share {
  Header header;
  Numbers numbers;  // those that fit
};

at::Tensor packed(const Header& header, const Numbers& numbers) {
  at::Tensor words = at::zeros({static_cast<std::int64_t>(kWords)}, at::kLong);
  auto* const word = words.mutable_data_ptr<std::int64_t>();
  const std::array<std::int64_t, kHeaderWords> first{
      header.fingerprint, header.has_validation_error, header.count, header.input_needs_gradient,
      header.has_backward};
  std::copy(first.begin(), first.end(), word);
  for (std::size_t i = 0; i < std::min(numbers.size(), kRoom); ++i)
    word[kHeaderWords + i] = std::bit_cast<std::int64_t>(numbers[i]);
  return words;
}

Share unpacked(const at::Tensor& words, std::size_t number_count) {
  const auto* const at = words.const_data_ptr<std::int64_t>();
  Share out{.header = {at[0], at[1], at[2], at[3], at[4]}, .numbers = {}};
  for (std::size_t i = 0; i < std::min(number_count, kRoom); ++i)
    out.numbers.push_back(std::bit_cast<double>(at[kHeaderWords + i]));
  return out;
}

std::vector<Share> gather_shares(Communicator& communicator, const BatchShare& mine,
                                 const std::string& description, const Numbers& numbers) {
  const Header header{.fingerprint = std::bit_cast<std::int64_t>(fingerprint(description)),
                      .has_validation_error = mine.description.validation_error ? 1 : 0,
                      .count = mine.count,
                      .input_needs_gradient = mine.input_needs_gradient,
                      .has_backward = mine.has_backward};
  std::vector<Share> shares;
  for (const at::Tensor& words :
       communicator.gather(packed(header, numbers), "exchange of SyncBatchNorm in training")) {
    shares.push_back(unpacked(words, numbers.size()));
  }
  return shares;
}

bool agree_on_descriptions(const std::vector<Share>& shares) {
  return std::all_of(shares.begin(), shares.end(), [&](const Share& each) {
    return each.header.has_validation_error == 0 &&
           each.header.fingerprint == shares.front().header.fingerprint;
  });
}

// A rank whose output requires no gradient has no backward pass in which it could join its peers'
// all-reduce.
void require_backward_everywhere(const std::vector<Share>& shares) {
  std::vector<RankDescription> descriptions;
  for (const Share& each : shares) {
    descriptions.push_back({.properties = {{"whether the output of SyncBatchNorm requires a "
                                            "gradient, although some rank's input does",
                                            each.header.has_backward ? "true" : "false"}},
                            .validation_error = std::nullopt});
  }
  if (const auto sentence = find_disagreement(descriptions)) throw DisagreementError(*sentence);
}

[[noreturn]] void refuse_one_value(const std::vector<Share>& shares) {
  const auto holder = std::find_if(shares.begin(), shares.end(),
                                   [](const Share& each) { return each.header.count > 0; });
  throw DisagreementError(
      "SyncBatchNorm in training needs more than one value per channel over all " +
      std::to_string(shares.size()) + " ranks of its group, and only rank " +
      std::to_string(holder - shares.begin()) + " has one");
}

Numbers numbers_of(const BatchShare& mine) {
  const auto channels = static_cast<std::size_t>(std::max(mine.channels, std::int64_t{0}));
  if (!mine.statistics) return {};
  if (mine.description.validation_error) return Numbers(2 * channels, 0.0);
  BatchStatistics own = mine.statistics();
  Numbers numbers = std::move(own.averages);
  numbers.insert(numbers.end(), own.squared_distances.begin(), own.squared_distances.end());
  return numbers;
}

void gather_the_rest(Communicator& communicator, const Numbers& mine, std::vector<Share>& shares) {
  const Numbers rest(mine.begin() + static_cast<std::ptrdiff_t>(kRoom), mine.end());
  const auto gathered = communicator.gather(torch::tensor(rest, at::kDouble),
                                            "exchange of SyncBatchNorm's other statistics");
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const auto* const first = gathered[rank].const_data_ptr<double>();
    shares[rank].numbers.insert(shares[rank].numbers.end(), first, first + rest.size());
  }
}

BatchStatistics merged_of(const std::vector<Share>& shares) {
  std::vector<BatchStatistics> by_rank;
  for (const Share& each : shares) {
    const auto middle = each.numbers.begin() + static_cast<std::ptrdiff_t>(each.numbers.size() / 2);
    by_rank.push_back({.count = each.header.count,
                       .averages = {each.numbers.begin(), middle},
                       .squared_distances = {middle, each.numbers.end()}});
  }
  return merged(by_rank);
}

}  // namespace

BatchAgreement exchange(Communicator& communicator, const BatchShare& mine) {
  const std::string description = encode(mine.description);
  const Numbers numbers = numbers_of(mine);
  std::vector<Share> shares = gather_shares(communicator, mine, description, numbers);
  if (!agree_on_descriptions(shares)) disagree(communicator, description);
  BatchAgreement out;
  std::int64_t& count = out.whole.count;
  for (const Share& each : shares) {
    count += each.header.count;
    out.counts.push_back(each.header.count);
    out.some_input_needs_gradient |= each.header.input_needs_gradient != 0;
  }
  if (count == 1) refuse_one_value(shares);
  if (count == 0) {
    const std::vector<double> zeros(static_cast<std::size_t>(mine.channels), 0.0);
    out.whole = {.count = 0, .averages = zeros, .squared_distances = zeros};
    out.some_input_needs_gradient = false;
    return out;
  }
  if (out.some_input_needs_gradient) require_backward_everywhere(shares);
  if (numbers.size() > kRoom) gather_the_rest(communicator, numbers, shares);
  if (mine.statistics) out.whole = merged_of(shares);
  return out;
}

}  // namespace lockstep
