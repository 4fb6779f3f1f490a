#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// What ranks compare before they exchange tensors, and the sentence when they differ: pure
// functions on text, without torch. Everything is Local and does not block.

// One thing that must be equal on all ranks: what it is ("the shape of parameter 'weight'") and
// what this rank has ("[4, 2]").
struct Statement {
  std::string subject;
  std::string value;

  bool operator==(const Statement&) const = default;
};

// All that one rank says: its statements, and why it cannot take part, if it cannot.
struct Declaration {
  std::vector<Statement> statements;
  std::optional<std::string> obstacle;
};

// A text of any bytes from which decode() rebuilds the declaration; decode throws
// std::invalid_argument on anything else.
std::string encode(const Declaration& declaration);
Declaration decode(const std::string& text);

// 64-bit FNV-1a.
std::uint64_t fingerprint(const std::string& text);

// The sentence about the first difference between the ranks' declarations (one per rank, in rank
// order), or nothing if there is none. Any rank's obstacle goes before all differences. The result
// depends on the arguments alone, so every rank that has them finds the same sentence.
std::optional<std::string> find_disagreement(const std::vector<Declaration>& declarations);

// "rank 1", "ranks 0 and 2", "ranks 0, 1 and 4".
std::string name_ranks(const std::vector<std::size_t>& ranks);

// A number in digits from which its very bits can be read back.
std::string exact_text(double value);

}  // namespace lockstep
