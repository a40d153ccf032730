// The part of XLA's foreign function interface that our calls use, as its C header (xla/ffi/api/c_api.h, Apache-2.0)
// lays it out. Declared here so that building needs a compiler and nothing of jaxlib; XLA asks for the version first
// (`answered_version`) and refuses a library that does not fit.
#pragma once

#include <cstring>

#include "integers.h"

namespace masp {

struct Extension {
  size_t struct_size;
  int32_t type;
  Extension* next;
};

struct Version {
  size_t struct_size;
  Extension* extension;
  int32_t major, minor;
};

struct Metadata {
  size_t struct_size;
  Version version;
  uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct Buffer {
  size_t struct_size;
  Extension* extension;
  int32_t dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
};

struct Buffers {
  size_t struct_size;
  Extension* extension;
  int64_t size;
  int32_t* types;
  Buffer** at;
};

struct Name {
  const char* text;
  size_t length;
};

struct Scalar {
  int32_t dtype;
  void* value;
};

struct Attributes {
  size_t struct_size;
  Extension* extension;
  int64_t size;
  int32_t* types;
  Name** names;
  Scalar** at;
};

struct CallFrame {
  size_t struct_size;
  Extension* extension;
  const void* api;
  void* context;
  int32_t stage;
  Buffers arguments, results;
  Attributes attributes;
};

// Types of numbers, as XLA counts them: truth values, and unsigned bytes.
constexpr int32_t kTruth = 1, kByte = 6;

// 0.1 has all that we use; XLA 0.3 still takes it, and one that does not says so when the library is loaded.
constexpr int32_t kMetadataExtension = 1, kMajor = 0, kMinor = 1;

// Whether the call only asks which version of the interface we speak; then it has its answer.
inline bool answered_version(CallFrame* frame) {
  Extension* extension = frame->extension;
  if (extension == nullptr || extension->type != kMetadataExtension) return false;
  Metadata* metadata = reinterpret_cast<MetadataExtension*>(extension)->metadata;
  metadata->version.major = kMajor;
  metadata->version.minor = kMinor;
  metadata->traits = 0;
  return true;
}

inline float* argument(const CallFrame* frame, int i) { return static_cast<float*>(frame->arguments.at[i]->data); }
inline float* result(const CallFrame* frame, int i) { return static_cast<float*>(frame->results.at[i]->data); }
inline const int64_t* shape(const CallFrame* frame, int i) { return frame->arguments.at[i]->dims; }
inline const int64_t* result_shape(const CallFrame* frame, int i) { return frame->results.at[i]->dims; }

inline int64_t elements(const Buffer* buffer) {
  int64_t found = 1;
  for (int64_t d = 0; d < buffer->rank; ++d) found *= buffer->dims[d];
  return found;
}

inline const void* attribute(const CallFrame* frame, const char* name) {
  for (int64_t i = 0; i < frame->attributes.size; ++i) {
    const Name* known = frame->attributes.names[i];
    if (known->length == std::strlen(name) && std::memcmp(known->text, name, known->length) == 0)
      return frame->attributes.at[i]->value;
  }
  return nullptr;
}

inline int64_t whole(const CallFrame* frame, const char* name) { return *static_cast<const int64_t*>(attribute(frame, name)); }
inline float number(const CallFrame* frame, const char* name) { return *static_cast<const float*>(attribute(frame, name)); }

}  // namespace masp
