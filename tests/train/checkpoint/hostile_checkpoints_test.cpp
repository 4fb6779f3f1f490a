// Files that were made to crash a process that loads them, or to use up its memory or its time.
#include "tests/train/checkpoint/training.h"
#include "tests/train/checkpoint/zip_files.h"
#include "train/checkpoint/archive.h"
#include "train/checkpoint/pickle_reader.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <stdexcept>
#include <sys/stat.h>

static std::atomic<std::uint64_t> allocated{0};

// Counts what this program allocates, and stops it where it would never end.
void* operator new(std::size_t size) {
  allocated += size;
  if (void* memory = size > (std::size_t{1} << 32) ? nullptr : std::malloc(size)) return memory;
  throw std::bad_alloc();
}

void* operator new(std::size_t size, const std::nothrow_t& /*instead*/) noexcept {
  allocated += size;
  return std::malloc(size);
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}

namespace lockstep {
namespace {

using testing::little_endian;
using testing::TemporaryFolder;
using testing::zip_of;
using testing::ZipRecord;

constexpr std::uint64_t kBytesForAByte = 600;

const std::string kStart = "\x80\x02";

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// The sentence of the refusal, or "it was read". Its allocations are in proportion to the bytes.
std::string outcome_of(const std::string& pickle) {
  const std::uint64_t before = allocated;
  std::string sentence = "it was read";
  try {
    read_pickle(pickle, [](const std::string&, at::ScalarType dtype, std::int64_t count) {
      return at::zeros({count}, dtype);
    });
  } catch (const std::runtime_error& error) {
    sentence = error.what();
  }
  EXPECT_LT(allocated - before, kBytesForAByte * pickle.size() + 100'000) << sentence;
  return sentence;
}

const std::string kTooDeep = "its values are nested too deeply";

TEST(HostilePickles, ThatNestValuesAreRefused) {
  constexpr int kLevels = 200'000;
  const std::string lists = repeated("]", kLevels) + repeated("a", kLevels - 1);
  const std::string dicts = repeated("}K\1", kLevels - 1) + "}" + repeated("s", kLevels - 1);
  const std::string tuples = "N" + repeated("\x85", kLevels);
  const std::string mixed = repeated("}K\1](", kLevels) + "N" +
                            repeated(
                                "\x85\x85"
                                "es",
                                kLevels);
  for (const std::string& values : {lists, dicts, tuples, mixed}) {
    EXPECT_EQ(outcome_of(kStart + values + "."), kTooDeep);
    EXPECT_EQ(outcome_of(kStart + "}" + values + "b."), kTooDeep) << "and were thrown away";
  }
  EXPECT_EQ(outcome_of(kStart + repeated("]", 60) + repeated("a", 59) + "."), "it was read");
}

// Its depth would not be known.
TEST(HostilePickles, ThatChangeAValueAfterItWasUsedAreRefused) {
  const std::string changed = "a value in it is changed after it was used";
  EXPECT_EQ(outcome_of(kStart + "]q" + std::string("\0h\0a.", 5)), changed)
      << "a list within itself";
  std::string chain = kStart + "]r" + little_endian(0, 4);
  for (std::uint64_t i = 1; i < 200'000; ++i)
    chain += "j" + little_endian(i - 1, 4) + "]r" + little_endian(i, 4) + "a";
  EXPECT_EQ(outcome_of(chain + "."), changed) << "each within the one before it";
  EXPECT_EQ(outcome_of(kStart + "]]q" + std::string("\0ah\0Na.", 7)), changed);
}

// A tuple of the last one twice: after 49 of them 2^49 values, of 500 bytes.
TEST(HostilePickles, MayShareATupleWithoutCopyingIt) {
  std::string pickle = kStart + "N\x85q" + std::string(1, '\0');
  for (char i = 1; i < 50; ++i) {
    const std::string last{'h', static_cast<char>(i - 1)};
    pickle += last + last + "\x86q" + i;
  }
  EXPECT_EQ(outcome_of(pickle + "."), "it was read");
}

TEST(HostilePickles, MayHaveManyItems) {
  constexpr int kItems = 3'000'000;
  EXPECT_EQ(outcome_of(kStart + "(" + std::string(kItems, 'N') + "t."), "it was read");
  EXPECT_EQ(outcome_of(kStart + "](" + std::string(kItems, 'N') + "e."), "it was read");
}

TEST(HostilePickles, MayFetchATextFromTheMemoAgainAndAgain) {
  const std::string text = "X" + little_endian(1'000'000, 4) + std::string(1'000'000, 'x') + "q";
  EXPECT_EQ(outcome_of(kStart + "](" + text + std::string(1, '\0') +
                       repeated(std::string("h\0", 2), 100'000) + "e."),
            "it was read");
}

TEST(HostilePickles, WithNamesAndKeysThatAreLongAreRefused) {
  const std::string name(1'000'000, 'x'), odd = "a name in it is too long or has odd characters";
  EXPECT_EQ(outcome_of(kStart + "c" + name + "\nx\n."), odd);
  EXPECT_EQ(outcome_of(kStart + "cx\n\x1b[2J\n."), odd);
  const std::string text = "X" + little_endian(name.size(), 4) + name;
  EXPECT_EQ(outcome_of(kStart + text + "q" + std::string("\0h\0\x93.", 6)), odd);
  EXPECT_EQ(outcome_of(kStart + "}" + text + "Ns."), "a key in it is too long");
}

// LibTorch's hash table grows where many keys fall in one place: these keys differ in the lowest
// bits of their hash.
TEST(HostilePickles, MayHaveKeysThatCollide) {
  std::uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) inverse *= 2 - 11400714819323198485U * inverse;
  std::string pickle = kStart + "}";
  for (std::uint64_t i = 0; i < 64; ++i) pickle += "\x8a\x8" + little_endian(inverse * i, 8) + "Ns";
  EXPECT_EQ(outcome_of(pickle + "."), "it was read");
}

TEST(HostilePickles, WithTensorsOfManyDimensionsAreRefused) {
  const std::string storage = "(X" + little_endian(7, 4) + "storagectorch\nFloatStorage\nX" +
                              little_endian(1, 4) + "0X" + little_endian(3, 4) + "cpuK\1tQ";
  const std::string extents = "(" + repeated("K\1", 65) + "t";
  EXPECT_EQ(outcome_of(kStart + "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + "K" +
                       std::string(1, '\0') + extents + extents + "tR."),
            "a tensor in it has too many dimensions");
}

class HostileFiles : public ::testing::Test {
 protected:
  std::string outcome_of_file(const std::string& bytes) {
    std::ofstream(folder_ / "a.pt", std::ios::binary | std::ios::trunc) << bytes;
    const std::uint64_t before = allocated;
    std::string sentence = "it was read";
    try {
      read_archive(folder_ / "a.pt");
    } catch (const std::runtime_error& error) {
      sentence = error.what();
    }
    EXPECT_LT(allocated - before, kBytesForAByte * bytes.size() + 100'000) << sentence;
    return sentence;
  }

  TemporaryFolder folder_;
};

// A pickle of one tensor of `count` bytes in the record data/0.
std::string tensor_pickle(std::uint64_t count) {
  return kStart + "ctorch._utils\n_rebuild_tensor_v2\n((X" + little_endian(7, 4) +
         "storagectorch\nByteStorage\nX" + little_endian(1, 4) + "0X" + little_endian(3, 4) +
         "cpuJ" + little_endian(count, 4) + "tQK" + std::string(1, '\0') + "J" +
         little_endian(count, 4) + "\x85K\1\x85\x89)tR.";
}

TEST_F(HostileFiles, WithCompressedRecordsAreRefused) {
  const std::string small(100, 'x');
  for (const std::string name : {"data.pkl", "version", "byteorder", "data/0"}) {
    std::vector<ZipRecord> records{{.name = "data.pkl", .bytes = tensor_pickle(1'000'000'000)}};
    if (name == "data.pkl") records.clear();
    records.push_back({.name = name, .bytes = small, .method = 8, .says_size = 1'000'000'000});
    EXPECT_NE(outcome_of_file(zip_of(records)), "it was read") << name;
  }
  EXPECT_EQ(outcome_of_file(zip_of({{.name = "data.pkl", .bytes = small, .method = 8}})),
            "its record data.pkl is compressed or encrypted, which torch.save never does");
}

TEST_F(HostileFiles, WhoseRecordsOverlapAreRefused) {
  const std::string bytes(10'000, 'x');
  std::vector<ZipRecord> records{{.name = "data.pkl", .bytes = kStart + "N."}};
  EXPECT_EQ(outcome_of_file(zip_of(records)), "it was read");
  records.push_back({.name = "data/0", .bytes = bytes});
  const std::int64_t at = 30 + 16 + 4;
  for (int i = 1; i < 100; ++i)
    records.push_back({.name = "data/" + std::to_string(i),
                       .bytes = {},
                       .says_size = std::int64_t(bytes.size()),
                       .says_at = at});
  EXPECT_EQ(outcome_of_file(zip_of(records)), "it is torn or damaged (its records overlap)");
}

// The same records, whose directory is where a second end says, of 64 bits.
std::string with_an_end_of_64_bits(const std::string& zip) {
  const std::string records = zip.substr(0, zip.size() - 22), end = zip.substr(zip.size() - 22);
  const std::string nothing(4, '\0'), count = end.substr(10, 2) + std::string(6, '\0');
  const std::string end64 = little_endian(0x06064b50, 4) + little_endian(44, 8) +
                            std::string(12, '\0') + count + count + end.substr(12, 4) + nothing +
                            end.substr(16, 4) + nothing;
  const std::string place = little_endian(0x07064b50, 4) + nothing +
                            little_endian(records.size(), 8) + little_endian(1, 4);
  return records + end64 + place + end.substr(0, 8) + std::string(12, '\xff') +
         std::string(2, '\0');
}

TEST_F(HostileFiles, MayBeAsLargeAsTheirNumbersOf64BitsSay) {
  std::vector<ZipRecord> records{{.name = "data.pkl", .bytes = tensor_pickle(3)},
                                 {.name = "data/0", .bytes = "xyz", .is_large = true}};
  EXPECT_EQ(outcome_of_file(zip_of(records)), "it was read");
  EXPECT_EQ(read_archive(folder_ / "a.pt").value.toTensor().sum().item<std::int64_t>(),
            'x' + 'y' + 'z');
  EXPECT_EQ(outcome_of_file(with_an_end_of_64_bits(zip_of(records))), "it was read");
  records[1].says_size = std::int64_t{1} << 40;
  EXPECT_EQ(outcome_of_file(zip_of(records)), "it is torn or damaged (its records overlap)");
}

TEST_F(HostileFiles, MayReadOneStorageForManyTensors) {
  const std::string bytes(100'000, 'x'), one = tensor_pickle(bytes.size());
  const std::string tensor = one.substr(2, one.size() - 3);
  const std::string pickle = kStart + "](" + repeated(tensor, 1000) + "e.";
  const std::string file =
      zip_of({{.name = "data.pkl", .bytes = pickle}, {.name = "data/0", .bytes = bytes}});
  EXPECT_EQ(outcome_of_file(file), "it was read");
  const auto tensors = read_archive(folder_ / "a.pt").value.toList();
  EXPECT_EQ(tensors.get(0).toTensor().data_ptr(), tensors.get(999).toTensor().data_ptr());
}

TEST_F(HostileFiles, ThatAreNoFilesAreRefused) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const std::string& path : {folder_ / "pipe", std::string("/dev/zero"), folder_ / ""}) {
    try {
      read_archive(path);
      ADD_FAILURE() << path;
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "it is no regular file") << path;
    }
  }
}

}  // namespace
}  // namespace lockstep
