#include "ddp/launcher_report.h"

#include "ddp/base/characters.h"
#include "ddp/base/environment.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace lockstep {

namespace {

// Bytes that are not UTF-8, from a file's or an interface's name, would end torchrun's agent.
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

// Marks a sentence written by Lockstep, which the program's own replaces.
const std::string kByLockstep = R"("reported_by": "lockstep")";
const std::string kTimestamp = R"("timestamp": ")";
const std::string kNanoseconds = R"("time_ns": ")";

enum class Reporter { lockstep, program };

// When a failure was reported first, since the epoch. torchrun reads whole seconds; `lockstep
// launch` tells ranks of one second apart.
struct When {
  std::string seconds, nanoseconds;
};

When now() {
  const std::chrono::nanoseconds time = std::chrono::system_clock::now().time_since_epoch();
  return {std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()),
          std::to_string(time.count())};
}

// torchrun prints py_callstack; tools that watch it from outside read message.
std::string error_file(const std::string& sentence, const When& when, Reporter reporter) {
  return R"({"message": {"message": )" + quoted(sentence) + R"(, "extraInfo": {"py_callstack": )" +
         quoted(sentence) + ", " + kTimestamp + when.seconds + "\", " + kNanoseconds +
         when.nanoseconds + '"' + (reporter == Reporter::lockstep ? ", " + kByLockstep : "") +
         "}}}";
}

// Empty if there is no such file.
std::string text_in(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// torchrun takes the rank with the earliest time for the root cause, so another sentence about the
// same failure keeps the time.
When when_in(const std::string& text) {
  const auto value = [&](const std::string& name) {
    const std::size_t start = text.rfind(name) + name.size();
    return text.substr(start, text.find('"', start) - start);
  };
  return {value(kTimestamp), value(kNanoseconds)};
}

bool write_whole(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return false;
  const bool is_whole =
      ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(file);
  return is_whole;
}

// The first sentence stays, but the program's own replaces Lockstep's. Written to a file beside it
// and moved there, so that a reader finds it whole.
void report(const std::string& sentence, Reporter reporter) {
  const auto path = value_in(process_environment, "TORCHELASTIC_ERROR_FILE");
  if (!path) return;
  const std::string there = text_in(*path);
  const bool is_lockstep_s = there.find(kByLockstep) != std::string::npos;
  if (!there.empty() && !(reporter == Reporter::program && is_lockstep_s)) return;
  const std::string beside = *path + "." + std::to_string(::gettid());
  const When when = is_lockstep_s ? when_in(there) : now();
  if (write_whole(beside, error_file(sentence, when, reporter))) {
    if (is_lockstep_s && ::rename(beside.c_str(), path->c_str()) == 0) return;
    static_cast<void>(::link(beside.c_str(), path->c_str()) == 0);
  }
  ::unlink(beside.c_str());
}

}  // namespace

void report_to_launcher(const std::string& sentence) noexcept {
  try {
    report(sentence, Reporter::program);
  } catch (const std::exception&) {
    // For example out of memory: the caller still throws the error itself.
  }
}

void report_for_the_program(const std::string& sentence) noexcept {
  try {
    report(sentence, Reporter::lockstep);
  } catch (const std::exception&) {
  }
}

}  // namespace lockstep
