#include "ddp/consistency/agreement.h"

#include "ddp/errors.h"

#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace lockstep {

namespace {

// One text in `length` bytes, zeros after its end.
at::Tensor padded(const std::string& text, std::int64_t length) {
  at::Tensor bytes = at::zeros({length}, at::kByte);
  std::memcpy(bytes.data_ptr<std::uint8_t>(), text.data(), text.size());
  return bytes;
}

}  // namespace

bool is_equal_on_all_ranks(Communicator& communicator, const at::Tensor& mine,
                           const std::string& description) {
  Operation gathering = communicator.start_gather(mine, description);
  const at::Tensor all = gathering.home;
  communicator.wait(gathering);
  // One comparison for all ranks: a world of a thousand would otherwise make a million.
  const at::Tensor rows = all.view({communicator.world_size(), -1});
  return rows.eq(rows[0]).all().item<bool>();
}

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& mine,
                                      const std::string& description) {
  const at::Tensor my_length = at::full({1}, static_cast<std::int64_t>(mine.size()), at::kLong);
  std::vector<std::int64_t> lengths;
  for (const at::Tensor& each : communicator.gather(my_length, description + ", lengths")) {
    lengths.push_back(each.item<std::int64_t>());
  }
  // At least one byte: some backends refuse zero-element collectives.
  const auto longest = std::max(*std::max_element(lengths.begin(), lengths.end()), std::int64_t{1});
  const auto payloads = communicator.gather(padded(mine, longest), description + ", texts");
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < payloads.size(); ++rank) {
    texts.emplace_back(reinterpret_cast<const char*>(payloads[rank].data_ptr<std::uint8_t>()),
                       static_cast<std::size_t>(lengths[rank]));
  }
  return texts;
}

void disagree(Communicator& communicator, const std::string& mine) {
  std::vector<RankDescription> descriptions;
  for (const std::string& each : gather_texts(communicator, mine, "exchange of descriptions")) {
    descriptions.push_back(decode(each));
  }
  throw DisagreementError(find_disagreement(descriptions)
                              .value_or("ranks disagree on fingerprints of equal descriptions"));
}

void agree(Communicator& communicator, const RankDescription& mine,
           const std::string& description) {
  const std::string text = encode(mine);
  at::Tensor digest = at::empty({2}, at::kLong);
  auto* const words = digest.data_ptr<std::int64_t>();
  words[0] = std::bit_cast<std::int64_t>(fingerprint(text));
  words[1] = mine.validation_error ? 1 : 0;
  const bool all_say_the_same = is_equal_on_all_ranks(communicator, digest, description);
  if (all_say_the_same && !mine.validation_error) return;

  disagree(communicator, text);
}

}  // namespace lockstep
