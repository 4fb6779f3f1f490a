#include "tests/readers/outcomes.h"

#include "harness/base/fields.h"
#include "harness/base/read_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace lockstep::readers {

namespace {

constexpr uint64_t kInputs = 6000;
constexpr size_t kSentenceBytesMost = 2000;

}  // namespace

uint64_t inputs() {
  const char* wanted = std::getenv("LOCKSTEP_FUZZ_INPUTS");
  return wanted ? std::stoull(wanted) : kInputs;
}

std::vector<std::string> given_files(const std::string& name) {
  const char* folder = std::getenv("LOCKSTEP_FUZZ_FOLDER");
  std::vector<std::string> texts;
  if (!folder) return texts;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() &&
        (entry.path().filename() == name || entry.path().parent_path().filename() == name))
      texts.push_back(read_file(entry.path()));
  return texts;
}

void Outcomes::add(uint64_t number, const std::function<void()>& read) {
  try {
    read();
    ++accepted_;
  } catch (const FieldError& error) {
    ++refused_;
    const std::string what = error.what();
    EXPECT_TRUE(what.starts_with(place_) && what.size() > place_.size() + 4)
        << "input " << number << " of " << reader_ << " is refused without a place: " << what;
    EXPECT_TRUE(what.find("not JSON") == std::string::npos ||
                what.find(" at line ") != std::string::npos)
        << what;
    EXPECT_LT(what.size(), kSentenceBytesMost) << "input " << number << " of " << reader_;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "input " << number << " of " << reader_ << " throws " << error.what();
  }
}

void Outcomes::report() const {
  std::cout << reader_ << ": " << accepted_ + refused_ << " inputs, of which " << accepted_
            << " are read and " << refused_ << " refused\n";
  EXPECT_GT(accepted_ * 100, accepted_ + refused_);
  EXPECT_GT(refused_ * 100, accepted_ + refused_);
}

}  // namespace lockstep::readers
