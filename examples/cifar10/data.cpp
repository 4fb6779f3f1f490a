#include "data.h"

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace {

constexpr std::int64_t kChannels = 3, kSide = 32, kClasses = 10;
constexpr std::int64_t kRecord = 1 + kChannels * kSide * kSide;

std::vector<std::string> files_of(bool is_for_training) {
  if (!is_for_training) return {"test_batch.bin"};
  std::vector<std::string> files;
  for (int number = 1; number <= 5; ++number) {
    files.push_back("data_batch_" + std::to_string(number) + ".bin");
  }
  return files;
}

// uint8 [N, 3073]
at::Tensor records_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  const auto bytes = static_cast<std::int64_t>(file.tellg());
  if (bytes == 0 || bytes % kRecord != 0) {
    throw std::runtime_error(path + ": has " + std::to_string(bytes) +
                             " bytes, expected records of " + std::to_string(kRecord));
  }
  auto records = torch::empty({bytes / kRecord, kRecord}, torch::kUInt8);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(records.data_ptr<std::uint8_t>()), bytes);
  if (file.gcount() != bytes) throw std::runtime_error(path + ": ended while it was read");
  const auto label = records.select(1, 0).max().item<std::int64_t>();
  if (label >= kClasses) {
    throw std::runtime_error(path + ": has the label " + std::to_string(label) +
                             ", expected 0 to 9");
  }
  return records;
}

}  // namespace

Cifar10::Cifar10(const std::string& folder, bool is_for_training) {
  std::vector<at::Tensor> parts;
  for (const auto& file : files_of(is_for_training)) {
    parts.push_back(records_of((std::filesystem::path(folder) / file).string()));
  }
  const auto records = torch::cat(parts);
  labels_ = records.select(1, 0).to(torch::kInt64);
  images_ = records.slice(1, 1).contiguous().view({-1, kChannels, kSide, kSide});
}

torch::data::Example<> Cifar10::get(std::size_t index) {
  const auto i = static_cast<std::int64_t>(index);
  return {images_[i].to(torch::kFloat32) / 127.5 - 1, labels_[i]};
}

void make_cifar10(const std::string& folder, std::int64_t count) {
  std::filesystem::create_directories(folder);
  auto files = files_of(true);
  files.push_back(files_of(false).front());
  std::uint64_t seed = 0;
  for (const auto& name : files) {
    auto generator = at::detail::createCPUGenerator(++seed);
    const auto labels = torch::randint(0, kClasses, {count}, generator, torch::kInt64);
    auto images =
        torch::randint(0, 128, {count, kChannels, kSide, kSide}, generator, torch::kUInt8);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto label = labels[i].item<std::int64_t>();
      images[i][label % kChannels].slice(0, 3 * label, 3 * label + 4).add_(100);
    }
    const auto records =
        torch::cat({labels.to(torch::kUInt8).unsqueeze(1), images.view({count, -1})}, 1);
    std::ofstream file(std::filesystem::path(folder) / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(records.data_ptr<std::uint8_t>()), records.numel());
    if (!file.flush()) throw std::runtime_error(folder + "/" + name + ": cannot be written");
  }
}
