// The words of docs/glossary.md and the patterns of docs/patterns.md, as the pages define them.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

struct Word {
  std::string word;   // "average, sum"
  std::string means;  // without the marks of Markdown
};

const std::vector<Word>& glossary();
const std::vector<Word>& patterns();

// The entry of that word, in any case of its letters; nothing where there is none.
const Word* find_word(const std::string& word, const std::vector<Word>& words);

}  // namespace lockstep::cli
