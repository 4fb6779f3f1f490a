#include "train/checkpoint/archive.h"

#include "ddp/errors.h"
#include "train/checkpoint/pickle_reader.h"
#include "train/checkpoint/stored_records.h"

#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/torch.h>

#include <caffe2/serialize/inline_container.h>
#include <cstring>
#include <map>
#include <sstream>
#include <stdexcept>

namespace lockstep {

namespace {

// A record of ours, which torch.load does not look at: "NAME SIZE CHECKSUM" a line.
const std::string kChecksums = "lockstep_checksums";
const std::string kPickle = "data.pkl";

struct RecordSum {
  std::size_t size = 0;
  std::uint64_t checksum = 0;
  bool operator==(const RecordSum&) const = default;
};

// FNV-1a over words of eight bytes, stirred since a multiplication moves nothing downwards.
RecordSum sum_of(const void* bytes, std::size_t size) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto add = [&](std::uint64_t word) {
    hash = (hash ^ word) * 0x100000001b3U;
    hash ^= hash >> 29;
  };
  const auto* at = static_cast<const char*>(bytes);
  std::size_t left = size;
  for (; left >= sizeof(std::uint64_t);
       left -= sizeof(std::uint64_t), at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    add(word);
  }
  for (; left > 0; --left, ++at) add(static_cast<unsigned char>(*at));
  return {size, hash};
}

using Sums = std::map<std::string, RecordSum>;

std::string text_of(const Sums& sums) {
  std::string text;
  for (const auto& [name, sum] : sums)
    text += name + " " + std::to_string(sum.size) + " " + std::to_string(sum.checksum) + "\n";
  return text;
}

Sums sums_in(const std::string& text) {
  Sums sums;
  std::istringstream lines(text);
  std::string name;
  RecordSum sum;
  while (lines >> name >> sum.size >> sum.checksum) sums[name] = sum;
  return sums;
}

class File {
 public:
  explicit File(const std::string& path) : records_(path) {
    if (records_.has("byteorder") && records_.text("byteorder") != "little")
      throw std::runtime_error("its numbers are not little-endian");
    if (!records_.has(kPickle) || records_.has("constants.pkl"))
      throw std::runtime_error(
          "it is no file of torch.save or save_checkpoint (one of torch::save, perhaps, which "
          "torch::load reads)");
    if (records_.has(kChecksums)) expected_ = sums_in(records_.text(kChecksums));
  }

  ReadArchive read() {
    const std::string pickle = records_.text(kPickle);
    check(kPickle, pickle.data(), pickle.size());
    ReadArchive archive;
    archive.value =
        read_pickle(pickle, [this](const std::string& key, at::ScalarType dtype,
                                   std::int64_t count) { return storage(key, dtype, count); });
    const std::string all = text_of(seen_);
    archive.checksum = sum_of(all.data(), all.size()).checksum;
    return archive;
  }

 private:
  // Tensors may share a storage, which is read once.
  at::Tensor storage(const std::string& key, at::ScalarType dtype, std::int64_t count) {
    const std::string name = "data/" + key;
    const auto size = static_cast<std::size_t>(count) * c10::elementSize(dtype);
    if (!records_.has(name) || records_.size(name) != size)
      throw std::runtime_error("its record " + name + " is missing or has another size");
    const auto known = storages_.find(name);
    if (known != storages_.end() && known->second.scalar_type() == dtype) return known->second;
    if (known != storages_.end())
      throw std::runtime_error("its record " + name + " is of two kinds of numbers");
    const at::Tensor tensor = at::empty({count}, dtype);
    records_.read(name, tensor.data_ptr());
    check(name, tensor.const_data_ptr(), size);
    return storages_[name] = tensor;
  }

  void check(const std::string& name, const void* bytes, std::size_t size) {
    seen_[name] = sum_of(bytes, size);
    if (expected_.empty()) return;
    const auto expected = expected_.find(name);
    if (expected == expected_.end() || expected->second != seen_[name])
      throw std::runtime_error("its record " + name + " is damaged: the checksum differs");
  }

  const StoredRecords records_;
  Sums expected_, seen_;
  std::map<std::string, at::Tensor> storages_;
};

}  // namespace

ReadArchive read_archive(const std::string& path) {
  try {
    return File(path).read();
  } catch (const c10::Error& error) {
    const std::string line = error.what_without_backtrace();
    throw std::runtime_error("it is torn or damaged (" + line.substr(0, line.find_first_of(".\n")) +
                             ")");
  }
}

void write_archive(const c10::IValue& value,
                   const std::function<void(const void* bytes, std::size_t size)>& write) {
  std::string pickle;
  torch::jit::Pickler pickler(
      [&](const char* bytes, std::size_t size) { pickle.append(bytes, size); }, nullptr, nullptr,
      nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(value);
  pickler.stop();
  caffe2::serialize::PyTorchStreamWriter archive([&](const void* bytes, std::size_t size) {
    write(bytes, size);
    return size;
  });
  Sums sums;
  const auto add = [&](const std::string& name, const void* bytes, std::size_t size) {
    archive.writeRecord(name, bytes, size);
    sums[name] = sum_of(bytes, size);
  };
  add(kPickle, pickle.data(), pickle.size());
  const std::string byte_order = "little";
  add("byteorder", byte_order.data(), byte_order.size());
  const auto& tensors = pickler.tensorData();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    add("data/" + std::to_string(i), tensors[i].const_data_ptr(), tensors[i].nbytes());
  const std::string text = text_of(sums);
  archive.writeRecord(kChecksums, text.data(), text.size());
  archive.writeEndOfFile();
}

}  // namespace lockstep
