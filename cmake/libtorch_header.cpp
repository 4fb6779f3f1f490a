// Owns the precompiled header; holds no code.
