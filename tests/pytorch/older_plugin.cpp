// A plugin from before plugins said of which version they are.
extern "C" const void* lockstep_pytorch_plugin() {
  return nullptr;
}
