// The part of XLA's foreign function interface that the kernels use, with the memory layout of its C header
// (xla/ffi/api/c_api.h, Apache-2.0). Declared here so that building needs a compiler and nothing of jaxlib. XLA first
// queries the version (`is_version_query`) and rejects an incompatible library.
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

// XLA's codes of the element types bool and uint8.
constexpr int32_t kBool = 1, kUint8 = 6;

// The kernels need interface version 0.1 only; XLA 0.3 still accepts it, and reports an error at loading if it does
// not.
constexpr int32_t kMetadataExtension = 1, kMajor = 0, kMinor = 1;

// Whether the call only queries the version of the interface; if so, fills in the answer.
inline bool is_version_query(CallFrame* frame) {
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
  int64_t size = 1;
  for (int64_t d = 0; d < buffer->rank; ++d) size *= buffer->dims[d];
  return size;
}

inline const void* attribute(const CallFrame* frame, const char* name) {
  for (int64_t i = 0; i < frame->attributes.size; ++i) {
    const Name* candidate = frame->attributes.names[i];
    if (candidate->length == std::strlen(name) && std::memcmp(candidate->text, name, candidate->length) == 0)
      return frame->attributes.at[i]->value;
  }
  return nullptr;
}

inline int64_t integer_attribute(const CallFrame* frame, const char* name) {
  return *static_cast<const int64_t*>(attribute(frame, name));
}

inline float float_attribute(const CallFrame* frame, const char* name) {
  return *static_cast<const float*>(attribute(frame, name));
}

}  // namespace masp
