#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// The texts that ranks compare before they exchange tensors, and the sentence when they differ:
// pure functions without torch. Everything is Local and does not block.

// One thing that must be equal on all ranks: what it is ("the shape of parameter 'weight'") and
// what this rank has ("[4, 2]").
struct Property {
  std::string subject;
  std::string value;
  std::string because = "";  // why this rank has it, for the sentence; it need not be equal

  bool operator==(const Property&) const = default;
};

// One rank's description: its properties, and why it cannot take part, if it cannot.
struct RankDescription {
  std::vector<Property> properties;
  std::optional<std::string> validation_error;
};

// A text from which unpack() rebuilds texts of any bytes; unpack throws std::invalid_argument on
// anything else.
std::string pack(const std::vector<std::string>& texts);
std::vector<std::string> unpack(const std::string& packed);

// A text of any bytes from which decode() rebuilds the description; decode throws
// std::invalid_argument on anything else.
std::string encode(const RankDescription& description);
RankDescription decode(const std::string& text);

// 64-bit FNV-1a.
std::uint64_t fingerprint(const std::string& text);

// The sentence about the first difference between the ranks' descriptions (one per rank, in rank
// order), or nothing if there is none. A validation_error precedes all differences. The result
// depends on the arguments alone, so every rank finds the same sentence.
std::optional<std::string> find_disagreement(const std::vector<RankDescription>& descriptions);

// The same for the descriptions of some ranks, given in the same order.
std::optional<std::string> find_disagreement(const std::vector<std::size_t>& ranks,
                                             const std::vector<RankDescription>& descriptions);

// "rank 1", "ranks 0 and 2", "ranks 0, 1 and 4".
std::string name_ranks(const std::vector<std::size_t>& ranks);

// "0, 3-7" for ascending numbers; "none" for an empty list.
std::string listed(const std::vector<int>& ranks);

// "these ranks did not come: 1 (these did: 0, 2-7)".
std::string absence(const std::vector<int>& absent, const std::vector<int>& came);

// A decimal text from which the exact bits can be read back.
std::string exact_text(double value);

}  // namespace lockstep
