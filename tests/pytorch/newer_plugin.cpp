// A plugin of another version than the program's, whose other symbols may be anything.
extern "C" const void* lockstep_pytorch_plugin() {
  return nullptr;
}

extern "C" const char* lockstep_pytorch_plugin_version() {
  return "of a later release";
}
