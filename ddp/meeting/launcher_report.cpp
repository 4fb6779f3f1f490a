#include "ddp/meeting/launcher_report.h"

#include "ddp/meeting/environment.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <unistd.h>

namespace lockstep {

namespace {

// The number of bytes of the character at `place` in UTF-8; 0: there is none.
std::size_t length_of_character(const std::string& text, std::size_t place) {
  const auto code = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = code(place);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || place + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((code(place + i) & 0xc0) != 0x80) return 0;
  // Too long for what they say, half of a pair, or beyond the last one.
  const unsigned char second = code(place + 1);
  const bool is_none = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                       (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return is_none ? 0 : length;
}

// Bytes that are no characters, of a file's or an interface's name, would end torchrun's agent.
std::string in_utf8(const std::string& text) {
  std::string characters;
  for (std::size_t place = 0; place < text.size();) {
    const std::size_t length = length_of_character(text, place);
    characters += length == 0 ? "?" : text.substr(place, length);
    place += std::max<std::size_t>(length, 1);
  }
  return characters;
}

std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const char letter : in_utf8(text)) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      json += '\\';
      json += letter;
    } else if (code < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(code));
      json += escape;
    } else {
      json += letter;
    }
  }
  return json + '"';
}

// torchrun prints py_callstack, and what watches it from outside reads message.
std::string error_file(const std::string& sentence) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  return R"({"message": {"message": )" + quoted(sentence) + R"(, "extraInfo": {"py_callstack": )" +
         quoted(sentence) + R"(, "timestamp": ")" + std::to_string(seconds) + R"("}}})";
}

}  // namespace

void report_to_launcher(const std::string& sentence) noexcept {
  try {
    const auto path = value_in(process_environment, "TORCHELASTIC_ERROR_FILE");
    if (!path) return;
    const std::string text = error_file(sentence);
    // Written beside it and then linked: whoever sees the file sees it whole, and the first stays.
    const std::string beside = *path + "." + std::to_string(::getpid());
    const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) return;
    const bool is_whole =
        ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::close(file);
    if (is_whole) static_cast<void>(::link(beside.c_str(), path->c_str()) == 0);
    ::unlink(beside.c_str());
  } catch (const std::exception&) {
    // Out of memory, say: the error itself is still on its way.
  }
}

}  // namespace lockstep
