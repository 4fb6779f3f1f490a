#include "tests/ddp/forked_world.h"

#include "ddp/errors.h"
#include "ddp/init.h"

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/torch.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" void __asan_init() __attribute__((weak));

namespace lockstep::testing {

namespace {

// Under AddressSanitizer, which defines the function, worlds are several times slower.
const unsigned kDeadlineSeconds = __asan_init == nullptr ? 60 : 240;

struct Child {
  pid_t pid = 0;
  int report_fd = -1;
};

std::string report_of(const std::function<std::string()>& program) {
  try {
    return program();
  } catch (const CommunicationError& error) {
    return "CommunicationError: " + first_line(error);
  } catch (const DisagreementError& error) {
    return "DisagreementError: " + first_line(error);
  } catch (const UnfinishedReductionError& error) {
    return "UnfinishedReductionError: " + first_line(error);
  } catch (const UsageError& error) {
    return "UsageError: " + first_line(error);
  } catch (const std::exception& error) {
    return "exception: " + first_line(error);
  }
}

std::string run_rank(const std::string& folder, int rank, int world_size,
                     const RankProgram& program, std::chrono::milliseconds group_timeout) {
  auto store = c10::make_intrusive<c10d::FileStore>(folder + "/store", world_size);
  store->setTimeout(group_timeout);
  const Group group = init_process_group({.store = store,
                                          .rank = rank,
                                          .world_size = world_size,
                                          .backend = "cpu:gloo",  // no GPU is looked for
                                          .timeout = group_timeout});
  return program(group);
}

[[noreturn]] void be_child(int report_fd, const std::function<std::string()>& program) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kDeadlineSeconds);
  // LibTorch makes its pool of threads anew in a child, at the first use, which autograd's threads
  // of two devices must not make at once: one would find no pool, and abort.
  at::set_num_threads(at::get_num_threads());
  const std::string report = report_of(program);
  std::size_t written = 0;
  while (written < report.size()) {
    const auto count = ::write(report_fd, report.data() + written, report.size() - written);
    if (count <= 0) ::_exit(3);
    written += static_cast<std::size_t>(count);
  }
  ::_exit(0);  // no destructors: a group with work pending would block until its timeout
}

Child start(const std::function<std::string()>& program) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe failed");
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid == 0) {
    ::close(ends[0]);
    be_child(ends[1], program);
  }
  ::close(ends[1]);
  return {pid, ends[0]};
}

std::string finish(const Child& child) {
  std::string report;
  char bytes[4096];
  for (ssize_t count = 0; (count = ::read(child.report_fd, bytes, sizeof bytes)) > 0;) {
    report.append(bytes, static_cast<std::size_t>(count));
  }
  ::close(child.report_fd);
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  if (WIFSIGNALED(status)) return "died: signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return "died: exit " + std::to_string(WEXITSTATUS(status));
  return report;
}

}  // namespace

std::vector<std::string> same(int world_size, const std::string& report) {
  return std::vector<std::string>(static_cast<std::size_t>(world_size), report);
}

std::vector<std::string> run_world(int world_size, const RankProgram& program,
                                   std::chrono::milliseconds group_timeout) {
  at::set_num_threads(1);
  std::string folder = (std::filesystem::temp_directory_path() / "lockstep-ddp-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  std::vector<Child> children;
  for (int rank = 0; rank < world_size; ++rank) {
    children.push_back(
        start([&] { return run_rank(folder, rank, world_size, program, group_timeout); }));
  }
  std::vector<std::string> reports;
  for (const Child& child : children) reports.push_back(finish(child));
  std::filesystem::remove_all(folder);
  return reports;
}

std::string numbers(const at::Tensor& tensor) {
  const at::Tensor row = tensor.detach().to(at::kDouble).contiguous().view({-1});
  std::ostringstream text;
  text.precision(17);
  for (std::int64_t i = 0; i < row.numel(); ++i) {
    text << (i > 0 ? " " : "") << row[i].item<double>();
  }
  return text.str();
}

}  // namespace lockstep::testing
