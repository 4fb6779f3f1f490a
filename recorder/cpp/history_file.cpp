#include "recorder/cpp/history_file.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep {

namespace {

constexpr size_t kEndingBytes = 4096;  // kept free for the last record

// Within it, a write beyond the limit of a file's size is an error, and no signal, which would end
// the program.
class WithoutSizeSignal {
 public:
  WithoutSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~WithoutSizeSignal() {
    const timespec now{};
    while (sigtimedwait(&signal_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSizeSignal(const WithoutSizeSignal&) = delete;

 private:
  sigset_t signal_, before_;
};

std::string made_path(const std::filesystem::path& folder, int rank) {
  std::error_code error;
  std::filesystem::create_directories(folder.parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw std::runtime_error("lockstep::Recorder: " + folder.string() + ": " +
                             std::strerror(errno));
  return (folder / ("rank" + std::to_string(rank) + ".history")).string();
}

}  // namespace

HistoryFile::HistoryFile(const std::filesystem::path& folder, int rank, size_t bytes_most)
    : path_(made_path(folder, rank)), bytes_most_(bytes_most), process_(::getpid()) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor_ < 0)
    throw std::runtime_error(
        "lockstep::Recorder: " + path_ + ": " +
        (errno == EEXIST ? "is there already; record into a new folder" : std::strerror(errno)));
}

HistoryFile::~HistoryFile() {
  ::close(descriptor_);
}

void HistoryFile::append_text(FrameKind kind, std::string_view header,
                              std::span<const std::byte> payload) {
  const std::lock_guard lock(mutex_);
  if (has_ended_ || ::getpid() != process_) return;
  if (bytes_ + framed_size(header.size(), payload.size()) <= bytes_most_ - kEndingBytes)
    return write(kind, header, payload);
  const Ending full{Ending::Kind::overflowed,
                    "a history has at most " + std::to_string(bytes_most_) + " bytes"};
  write(FrameKind::ending, header_of(full), {});
  has_ended_ = true;
}

void HistoryFile::end(const Ending& ending) {
  auto shortened = ending;
  shortened.why.resize(std::min(shortened.why.size(), kEndingBytes / 16));
  const std::lock_guard lock(mutex_);
  if (has_ended_ || ::getpid() != process_) return;
  write(FrameKind::ending, header_of(shortened), {});
  has_ended_ = true;
}

bool HistoryFile::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

void HistoryFile::write(FrameKind kind, std::string_view header,
                        std::span<const std::byte> payload) {
  record_.resize(framed_size(header.size(), payload.size()));
  auto* const commit = write_frame(reinterpret_cast<std::byte*>(record_.data()), kind, header,
                                   payload.data(), payload.size());
  const uint64_t word = kCommit ^ count_++;
  std::memcpy(commit, &word, sizeof(word));
  bytes_ += record_.size();
  const WithoutSizeSignal guard;
  for (size_t at = 0; at < record_.size();) {
    const auto written = ::write(descriptor_, record_.data() + at, record_.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      has_ended_ = true;
      const auto sentence =
          "lockstep::Recorder: " + path_ + ": " + std::strerror(errno) + "; recording ends\n";
      [[maybe_unused]] const auto said = ::write(STDERR_FILENO, sentence.data(), sentence.size());
      return;
    }
    at += static_cast<size_t>(written);
  }
}

}  // namespace lockstep
