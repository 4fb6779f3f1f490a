#include "ddp/meeting/launcher_report.h"

#include "ddp/meeting/environment.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <unistd.h>

namespace lockstep {

namespace {

std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const char letter : text) {
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
