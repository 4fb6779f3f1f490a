// The targets that may be in the place of a checkpoint that is saved, and how its name is shown.
#include "tests/ddp/forked_world.h"
#include "tests/train/checkpoint/training.h"
#include "train/checkpoint.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <set>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::run_world;
using testing::same;
using testing::sentence_of;
using testing::TemporaryFolder;
namespace fs = std::filesystem;

constexpr SaveOptions kAll{.keep_last = 3, .is_best = true};

void make_socket(const std::string& path) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  EXPECT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(socket);
}

// "name type; " of all that is in the folder, sorted.
std::string names_in(const TemporaryFolder& folder) {
  std::set<std::string> names;
  for (const auto& each : fs::directory_iterator(folder / ""))
    names.insert(each.path().filename().string() + " " +
                 std::to_string(static_cast<int>(each.symlink_status().type())) + "; ");
  std::string text;
  for (const auto& each : names) text += each;
  return text;
}

struct Kind {
  const char* name;
  void (*make)(const std::string& path);
};

const std::vector<Kind> kKinds = {
    {"pipe", [](const std::string& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); }},
    {"socket", make_socket},
    {"folder", [](const std::string& path) { fs::create_directory(path); }}};

TEST(SavedCheckpoints, ReplaceNothingThatIsNoFile) {
  for (const Kind& kind : kKinds) {
    for (const std::string name :
         {"a.pt", "a.pt.1", "a.pt.2", "a.pt.best", "a.pt.1.partial", "a.pt.best.partial"}) {
      const TemporaryFolder folder;
      const std::string path = folder / "a.pt";
      kind.make(folder / name);
      std::string before;
      const auto reports = run_world(2, [&](const Group& group) {
        std::int64_t step = 1;
        if (name != "a.pt") save_checkpoint(path, group, {.step = &step});
        if (group->getRank() == 0) before = names_in(folder);
        const std::string sentence =
            sentence_of([&] { save_checkpoint(path, group, {.step = &step}, kAll); });
        if (group->getRank() == 0) EXPECT_EQ(names_in(folder), before);
        return sentence;
      });
      EXPECT_EQ(reports,
                same(2, "rank 0 of 2 cannot take part: save_checkpoint: " + path +
                            ": cannot write " + (folder / name) + ": it is no regular file"))
          << kind.name;
    }
  }
}

TEST(SavedCheckpoints, ReplaceALinkAndNotWhatItNames) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink(folder / "pipe", folder / "a.pt");
  const auto reports = run_world(2, [&](const Group& group) {
    std::int64_t step = 5;
    save_checkpoint(folder / "a.pt", group, {.step = &step});
    step = 0;
    load_checkpoint(folder / "a.pt", group, {.step = &step});
    return std::to_string(step);
  });
  EXPECT_EQ(reports, same(2, "5"));
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
  EXPECT_FALSE(fs::is_symlink(folder / "a.pt"));
}

// Names come from files of others.
TEST(SavedCheckpoints, AreNamedOnOneLineWhateverIsInTheirNames) {
  const TemporaryFolder folder;
  const std::string odd = folder / "b\x1b[2J\n.pt", shown = folder / "b\\x1b[2J\\x0a.pt";
  const auto reports = run_world(2, [&](const Group& group) {
    torch::nn::Module saved("saved"), mine("mine");
    saved.register_buffer("x\x1b[2J\ny", at::ones({1}));
    mine.register_buffer("z", at::ones({1}));
    save_checkpoint(odd, group, {.model = &saved});
    std::string report = sentence_of([&] { load_checkpoint(odd, group, {.model = &mine}); });
    mine.register_buffer("x\x1b[2J\ny", at::ones({2}));
    saved.register_buffer("z", at::ones({1}));
    save_checkpoint(odd, group, {.model = &saved});
    report += " | " + sentence_of([&] { load_checkpoint(odd, group, {.model = &mine}); });
    report += " | " + sentence_of([&] {
                save_checkpoint(folder / "no\nsuch/b.pt", group, {.model = &saved});
              });
    return report;
  });
  const std::string refused = "rank 0 of 2 cannot take part: ",
                    all = "ranks 0 and 1 of 2 cannot take part: ";
  EXPECT_EQ(
      reports,
      same(2, all + "load_checkpoint: " + shown +
                  ": 'model' of the file lacks 'z' of the model, and has 'x\\x1b[2J\\x0ay', "
                  "which the model lacks | " +
                  all + "load_checkpoint: " + shown +
                  ": 'x\\x1b[2J\\x0ay' is Float [1] in it, and Float [2] in the model | " +
                  refused + "save_checkpoint: " + (folder / "no\\x0asuch/b.pt") + ": cannot open " +
                  (folder / "no\\x0asuch/b.pt.partial") + ": No such file or directory"));
}

}  // namespace
}  // namespace lockstep
