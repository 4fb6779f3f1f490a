// Whatever bytes a checkpoint has, it is read or refused with a sentence. Each input is a function
// of its number; LOCKSTEP_FUZZ_INPUTS says how many there are.
#include "tests/mutations.h"
#include "tests/train/checkpoint/training.h"
#include "tests/train/checkpoint/zip_files.h"
#include "train/checkpoint/archive.h"
#include "train/checkpoint/pickle_reader.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <stdexcept>

namespace lockstep {
namespace {

using testing::TemporaryFolder;
using testing::zip_of;
using testing::ZipRecord;
using testing_support::mutated;
using Random = std::mt19937_64;

constexpr std::int64_t kStorageBytes = 48;

std::uint64_t inputs() {
  const char* wanted = std::getenv("LOCKSTEP_FUZZ_INPUTS");
  return wanted ? std::stoull(wanted) : 4000;
}

std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string text(const std::string& letters) {
  return std::string{'X', static_cast<char>(letters.size()), '\0', '\0', '\0'} + letters;
}

// One step of a pickle, right or wrong: an opcode with its operand, or the many of a tensor.
std::string step(Random& random) {
  static const std::vector<std::string> kSteps{
      "N",
      "\x88",
      "]",
      "}",
      ")",
      "(",
      "t",
      "\x85",
      "\x86",
      "\x87",
      "a",
      "e",
      "s",
      "u",
      "R",
      "b",
      "Q",
      "\x94",
      "K\1",
      std::string("K\0", 2),
      "M\1\1",
      "J\xff\xff\xff\xff",
      "\x8a\1\xff",
      "G?\xf0\0\0\0\0\0\0",
      text("a"),
      text("weight"),
      text("storage"),
      text("0"),
      text("cpu"),
      "ccollections\nOrderedDict\n",
      "ctorch._utils\n_rebuild_tensor_v2\n",
      "ctorch\nSize\n",
      "ctorch._utils\n_rebuild_parameter\n",
      "ctorch\nFloatStorage\n",
      "ctorch\nLongStorage\n",
      "cposix\nsystem\n",
      "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + "K\14tQ",
      "ccollections\nOrderedDict\n)R",
      "K\3\x85K\1\x85\x89)"};
  const char place = static_cast<char>(random() % 6);
  switch (random() % 5) {
    case 0:
      return std::string{'q', place};
    case 1:
      return std::string{'h', place};
    default:
      return kSteps[random() % kSteps.size()];
  }
}

std::string pickle_of_steps(Random& random) {
  std::string pickle = "\x80\x02";
  for (auto steps = random() % 40; steps > 0; --steps) pickle += step(random);
  return pickle + ".";
}

// An ordered dictionary of a tensor, a list and a tuple.
std::string good_pickle() {
  return "\x80\x02"
         "ccollections\nOrderedDict\nq" +
         std::string(1, '\0') + ")Rq\1(" + text("weight") +
         "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" +
         text("0") + text("cpu") + "K\14tQK" + std::string(1, '\0') + "K\3K\4\x86K\4K\1\x86\x89h" +
         std::string(1, '\0') + ")RtR" + text("groups") + "](}" + text("lr") +
         "G?\xb9\x99\x99\x99\x99\x99\x9as" + text("betas") +
         "NK\2\x86\x85"
         "eu.";
}

std::string pickle_at(Random& random) {
  return random() % 3 == 0 ? pickle_of_steps(random) : mutated(good_pickle(), random);
}

struct Outcomes {
  std::uint64_t read = 0, refused = 0;

  void add(const std::function<void()>& reading, std::uint64_t number) {
    try {
      reading();
      ++read;
    } catch (const std::runtime_error& error) {
      ++refused;
      EXPECT_LT(std::string(error.what()).size(), 3000u) << number;
    }
  }

  void report(const char* reader) const {
    std::cout << reader << ": " << read << " are read and " << refused << " refused\n";
    EXPECT_GT(read * 100, refused);
    EXPECT_GT(refused * 100, read);
  }
};

TEST(AnyCheckpoint, IsReadAsAPickleOrRefused) {
  const auto storage = [](const std::string&, at::ScalarType dtype, std::int64_t count) {
    if (count * static_cast<std::int64_t>(c10::elementSize(dtype)) != kStorageBytes)
      throw std::runtime_error("no such storage");
    return at::zeros({count}, dtype);
  };
  Outcomes outcomes;
  for (std::uint64_t number = 0; number < inputs(); ++number) {
    Random random(number);
    const std::string pickle = pickle_at(random);
    outcomes.add([&] { read_pickle(pickle, storage); }, number);
  }
  outcomes.report("pickles");
}

std::string file_at(Random& random, const std::vector<std::string>& files) {
  if (random() % 2 == 0) return mutated(files[random() % files.size()], random);
  const std::string bytes(kStorageBytes, 'x');
  std::vector<ZipRecord> records{{.name = "data.pkl", .bytes = pickle_at(random)},
                                 {.name = "data/0", .bytes = bytes},
                                 {.name = "byteorder", .bytes = "little"}};
  ZipRecord& record = records[random() % records.size()];
  switch (random() % 8) {
    case 0:
      record.says_at = static_cast<std::int64_t>(random() % 300);
      break;
    case 1:
      record.says_size = static_cast<std::int64_t>(random() % 300);
      break;
    case 2:
      record.method = 8;
      break;
    case 3:
      return mutated(zip_of(records), random);
    default:
      break;
  }
  return zip_of(records);
}

TEST(AnyCheckpoint, IsReadAsAFileOrRefused) {
  const std::vector<std::string> files{
      file_bytes(LOCKSTEP_RECORDED "/adam.pt"), file_bytes(LOCKSTEP_RECORDED "/plain_sgd.pt"),
      zip_of({{.name = "data.pkl", .bytes = good_pickle()},
              {.name = "data/0", .bytes = std::string(kStorageBytes, 'x')}})};
  const TemporaryFolder folder;
  for (const std::string& file : files) {
    std::ofstream(folder / "a.pt", std::ios::binary | std::ios::trunc) << file;
    EXPECT_NO_THROW(read_archive(folder / "a.pt"));
  }
  Outcomes outcomes;
  for (std::uint64_t number = 0; number < inputs(); ++number) {
    Random random(number);
    std::ofstream(folder / "a.pt", std::ios::binary | std::ios::trunc) << file_at(random, files);
    outcomes.add([&] { read_archive(folder / "a.pt"); }, number);
  }
  outcomes.report("files");
}

}  // namespace
}  // namespace lockstep
