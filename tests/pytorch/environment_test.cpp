#include "harness/pytorch/built.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace lockstep::pytorch {
namespace {

class Environment : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep peer XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void install(const std::string& release) const {
    std::ofstream(folder_ / "version.py")
        << "__all__ = ['__version__']\n__version__ = '" << release << "'\ndebug = False\n";
  }
  std::string why_not_with(const std::string& release, bool is_hosted = false) const {
    return pytorch::why_not({.is_built = true,
                             .why = "",
                             .environment = "PEER",
                             .torch = folder_.string(),
                             .release = release,
                             .version = "",
                             .is_hosted = is_hosted});
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(Environment, CanBeUsedWhereItHoldsTheReleaseThatTheProgramWasBuiltWith) {
  install("2.11.0+cu130");
  EXPECT_EQ(why_not_with("2.11.0+cu130"), "");
}

TEST_F(Environment, OfAnotherReleaseIsRefusedWithBothAndTheCure) {
  install("2.12.1");
  EXPECT_EQ(why_not_with("2.11.0+cu130"),
            "PyTorch in PEER is 2.12.1, and this program was built with 2.11.0+cu130: "
            "./lockstep build builds it with what is there");
}

TEST_F(Environment, ThatIsGoneSinceIsRefusedWithTheCommandThatInstallsIt) {
  EXPECT_EQ(why_not_with("2.11.0+cu130"),
            "PyTorch is no longer in PEER: ./lockstep setup --peer installs it again");
}

TEST_F(Environment, OfAPythonThatHostsItIsOfTheSameSeries) {
  install("2.11.1+cpu");
  EXPECT_EQ(why_not_with("2.11.0+cu130", true), "");
  install("2.1.0");
  EXPECT_EQ(why_not_with("2.11.0+cu130", true),
            "PyTorch in PEER is 2.1.0, and this package of Lockstep was built with 2.11.0+cu130: "
            "install the Lockstep of that release");
}

TEST_F(Environment, OfAPythonThatHostsItMayLackPyTorch) {
  EXPECT_EQ(why_not_with("2.11.0+cu130", true),
            "PyTorch in PEER is not installed, and this package of Lockstep was built with "
            "2.11.0+cu130: install the Lockstep of that release");
}

TEST_F(Environment, SaysWhatWasMissingAsTheProgramWasBuilt) {
  EXPECT_EQ(pytorch::why_not({.is_built = false,
                              .why = "there was none",
                              .environment = "",
                              .torch = "",
                              .release = "",
                              .version = ""}),
            "there was none");
}

}  // namespace
}  // namespace lockstep::pytorch
