// A liblockstep_nccl.so of another Lockstep, for test_nccl.py: its first member tells.
namespace {
struct Stranger {
  const char* made_for;
};
const Stranger kStranger = {"Lockstep 0.0.9 on PyTorch 2.10.0"};
}  // namespace

extern "C" const Stranger* lockstep_nccl_plugin() {
  return &kStranger;
}
