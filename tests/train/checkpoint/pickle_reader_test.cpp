// Whatever bytes a pickle has, it is read or refused with a sentence.
#include "train/checkpoint/pickle_reader.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <random>
#include <stdexcept>

namespace lockstep {
namespace {

const std::string kTwo = "\x80\x02";

at::Tensor zeros(const std::string& /*key*/, at::ScalarType dtype, std::int64_t count) {
  if (count > 1000) throw std::runtime_error("too large for this test");
  return at::zeros({count}, dtype);
}

std::string refusal(const std::string& pickle) {
  try {
    read_pickle(pickle, zeros);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "it was read";
}

TEST(PickleReader, ReadsWhatPythonWritesForNumbersAndTexts) {
  // {'a': [1, -2, 2**40, 0.5], 'b': (None, True)}, protocol 2
  constexpr char kRest[] =
      "}q\0(X\1\0\0\0aq\1]q\2(K\1J\xfe\xff\xff\xff\x8a\6\0\0\0\0\0\1"
      "G?\xe0\0\0\0\0\0\0eX\1\0\0\0bq\3N\x88\x86q\4u.";
  const std::string pickle = kTwo + std::string(kRest, sizeof(kRest) - 1);
  const auto dict = pickle_dict(read_pickle(pickle, zeros));
  const auto list = dict->entries.at("a").toList();
  EXPECT_EQ(list.get(0).toInt(), 1);
  EXPECT_EQ(list.get(1).toInt(), -2);
  EXPECT_EQ(list.get(2).toInt(), std::int64_t{1} << 40);
  EXPECT_EQ(list.get(3).toDouble(), 0.5);
  EXPECT_TRUE(dict->entries.at("b").toTupleRef().elements()[0].isNone());
}

TEST(PickleReader, CallsNothingThatAFileNames) {
  EXPECT_EQ(refusal(kTwo + "cposix\nsystem\nX\4" + std::string("\0\0\0", 3) + "true\x85R."),
            "it holds a posix.system, expected tensors, numbers, texts, lists, tuples and "
            "dictionaries alone");
}

// A tensor of this size, offset 0 and strides (1,), of a storage of three.
std::string tensor(const std::string& size) {
  const std::string zeros(3, '\0');
  return "ctorch._utils\n_rebuild_tensor_v2\n((X\7" + zeros + "storagectorch\nFloatStorage\nX\1" +
         zeros + "0X\3" + zeros + "cpuK\3tQK" + std::string(1, '\0') + "K" + size +
         "\x85K\1\x85\x89tR";
}

// torch.nn.Parameter(tensor), as a program saves one that is in no state_dict.
TEST(PickleReader, ReadsAParameterAsItsTensor) {
  const auto read =
      read_pickle(kTwo + "ctorch._utils\n_rebuild_parameter\n(" + tensor("\3") + "\x88}tR.", zeros);
  EXPECT_EQ(read.toTensor().numel(), 3);
}

TEST(PickleReader, ReadsAListThatGrowsByOneElement) {
  EXPECT_EQ(read_pickle(kTwo + "]K\7a.", zeros).toList().get(0).toInt(), 7);
}

TEST(PickleReader, RefusesAnyOtherBytesWithASentence) {
  const std::string good = kTwo + "ccollections\nOrderedDict\nq" + std::string("\0", 1) +
                           ")Rq\1(X\1" + std::string("\0\0\0", 3) +
                           "actorch._utils\n_rebuild_tensor_v2\n((X\7" + std::string("\0\0\0", 3) +
                           "storagectorch\nFloatStorage\nX\1" + std::string("\0\0\0", 3) + "0X\3" +
                           std::string("\0\0\0", 3) + "cpuK\3tQK" + std::string("\0", 1) +
                           "K\3\x85K\1\x85\x89h" + std::string("\0", 1) + ")RtRu.";
  ASSERT_EQ(refusal(good), "it was read");
  std::mt19937 draw(7);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = good;
    for (unsigned n = draw() % 3 + 1; n > 0; --n)
      changed[draw() % changed.size()] = static_cast<char>(draw());
    if (draw() % 4 == 0) changed.resize(draw() % changed.size());
    if (refusal(changed) != "it was read") ++refused;
  }
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace lockstep
