#include "harness/worlds/forked/capture.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <span>
#include <sys/mman.h>
#include <unistd.h>

namespace lockstep {

namespace {

// Appends, so that truncating is enough to start anew.
Descriptor memory_file(const char* name) {
  Descriptor file(checked(memfd_create(name, MFD_CLOEXEC), "a file in memory"));
  checked(fcntl(file.number(), F_SETFL, O_APPEND), "a file in memory");
  return file;
}

std::string text_in(const Descriptor& from) {
  std::string text;
  char block[65536];
  ssize_t got = 0;
  while ((got = pread(from.number(), block, sizeof(block), static_cast<off_t>(text.size()))) > 0)
    text.append(block, static_cast<size_t>(got));
  return text;
}

void write_out(const std::string& text, const std::filesystem::path& to) {
  if (text.empty()) return;
  std::ofstream out(to, std::ios::binary | std::ios::trunc);
  out << text;
  if (!out.flush())
    throw std::filesystem::filesystem_error("cannot be written", to,
                                            std::make_error_code(std::errc::io_error));
}

}  // namespace

void Capture::start(int ranks) {
  // Others are empty since they were made, or were emptied after their last case.
  const auto used = static_cast<size_t>(ranks_);
  for (const auto& files : std::span(by_rank_).first(std::min(used, by_rank_.size())))
    for (const auto* file : {&files.out, &files.err})
      checked(ftruncate(file->number(), 0), "emptying a file in memory");
  ranks_ = ranks;
  while (by_rank_.size() < static_cast<size_t>(ranks))
    by_rank_.push_back({memory_file("rank.out"), memory_file("rank.err")});
}

void Capture::redirect(int rank) {
  const Files& own = by_rank_[static_cast<size_t>(rank)];
  checked(dup2(own.out.number(), STDOUT_FILENO), "standard output");
  checked(dup2(own.err.number(), STDERR_FILENO), "standard error");
  by_rank_.clear();
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
}

void Capture::switch_to(int rank) {
  std::fflush(stdout);
  const Files& own = by_rank_[static_cast<size_t>(rank)];
  checked(dup2(own.out.number(), STDOUT_FILENO), "standard output");
  checked(dup2(own.err.number(), STDERR_FILENO), "standard error");
}

Capture::Output Capture::of(int rank) const {
  const auto& files = by_rank_.at(static_cast<size_t>(rank));
  return {text_in(files.out), text_in(files.err)};
}

void Capture::keep(const std::filesystem::path& folder) const {
  for (int rank = 0; rank < ranks_; ++rank) keep(folder, rank, of(rank));
}

void Capture::keep(const std::filesystem::path& folder, int rank, const Output& output) {
  std::filesystem::create_directories(folder);
  const std::string name = "rank" + std::to_string(rank);
  write_out(output.out, folder / (name + ".out"));
  write_out(output.err, folder / (name + ".err"));
}

}  // namespace lockstep
