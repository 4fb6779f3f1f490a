// The errors that a program receives.
#pragma once

#include "harness/history/history.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/verdict.h"

#include <c10/util/Exception.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::scenarios {

// Note [Whose words]
// A claim that ranks receive an error judges a fact, that they throw, and words. The words of the
// subject `lockstep` are part of what it promises. Another subject says the same fact in words of
// its own, which no check can know, so of its sentences the fact alone is judged: whether there is
// one. Programs record every error by record_sentence(), and checks that compare words ask
// is_in_our_words() first.

// The error that this rank received; empty: none.
void record_sentence(RankContext& here, const char* name, const std::string& sentence);

// For a claim about how ranks end, who can record no sentence any more: as if one had been
// received.
void record_whose_words(RankContext& here, const char* name);

// Takes from a row of recorded sentences the text of one rank's, and whether their words may be
// judged.
std::string sentence_in(const Row& row, int rank);
bool is_in_our_words(const Row& row);

// One finding, which quotes two of them, if ranks did not all receive the same one.
Findings all_received_one_sentence(const Row& row);

// The sentence that `act` throws, without a stack; empty if it ends well. Unsupported passes.
std::string error_of(const std::function<void()>& act);

// The sentence with `name` for a path, which is the run's own.
std::string naming(std::string sentence, const std::string& path, const std::string& name);

// The warnings of LibTorch that this thread receives while it lives; they are not printed.
class Warnings {
 public:
  Warnings();
  ~Warnings();
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  const std::vector<std::string>& received() const;

 private:
  class Handler;
  const std::unique_ptr<Handler> handler_;
  c10::WarningHandler* const before_;
};

// "rank 1", "ranks 0 and 2", "ranks 0, 1 and 4".
std::string named(const std::vector<int>& ranks);

}  // namespace lockstep::scenarios
