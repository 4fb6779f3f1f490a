// Texts as a stranger might send or write them: valid ones with something changed, and noise.
#pragma once

#include <array>
#include <random>
#include <string>

namespace lockstep::testing_support {

inline std::string noise(std::mt19937_64& random, size_t most) {
  std::string bytes(random() % most, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// One change: a byte, a part left out, doubled or moved, a value replaced, an end cut off.
inline std::string changed(std::string text, std::mt19937_64& random) {
  static const std::array<std::string, 16> kValues = {"-1",
                                                      "0",
                                                      "99999999999999999999",
                                                      "-9223372036854775808",
                                                      "1e999",
                                                      "1.5",
                                                      "null",
                                                      "true",
                                                      "[]",
                                                      "{}",
                                                      "\"../../etc\"",
                                                      "\"/etc\"",
                                                      "\"\\u001b[2J\"",
                                                      "\"0.0.0.0\"",
                                                      "\"a\\nb\"",
                                                      "[[[[[[[[[[[[[[[["};
  if (text.empty()) return noise(random, 64);
  const size_t at = random() % text.size();
  const size_t length = 1 + random() % 16;
  switch (random() % 6) {
    case 0:
      text[at] = static_cast<char>(random());
      return text;
    case 1:
      return text.erase(at, length);
    case 2:
      return text.insert(at, text.substr(random() % text.size(), length));
    case 3:
      return text.substr(0, at);
    case 4:
      return text.insert(at, noise(random, 16));
    default: {
      // The text behind a colon, up to the next comma or brace.
      const size_t colon = text.find(':', at);
      if (colon == std::string::npos) return text.insert(at, kValues[random() % kValues.size()]);
      const size_t end = std::min(text.find_first_of(",}", colon), text.size());
      return text.replace(colon + 1, end - colon - 1, kValues[random() % kValues.size()]);
    }
  }
}

inline std::string mutated(std::string text, std::mt19937_64& random) {
  if (random() % 16 == 0) return noise(random, 256);
  for (auto changes = 1 + random() % 3; changes > 0; --changes)
    text = changed(std::move(text), random);
  return text;
}

}  // namespace lockstep::testing_support
