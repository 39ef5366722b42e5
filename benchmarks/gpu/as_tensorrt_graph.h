/* Inputs, outputs and nodes of a serialized ONNX model, as far as as_tensorrt.c needs them. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 8, TENSORS = 512, NODES = 1 << 16, MAGIC = 0x61736770 };

struct dims { int32_t rank; int64_t sizes[RANK]; };
struct tensor { char name[256]; int is_input, type; struct dims dims; char params[RANK][64]; };
struct graph { int magic, count, nodes, runs; uint64_t types; struct tensor tensors[TENSORS]; };

/* ---- ONNX, as far as it is read: fields of protobuf ---- */

struct field { int number; uint64_t value; const uint8_t *bytes; };

static uint64_t varint(const uint8_t **at, const uint8_t *end) {
  uint64_t value = 0;
  for (int shift = 0; *at < end; shift += 7) {
    uint8_t byte = *(*at)++;
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) break;
  }
  return value;
}

static int next(const uint8_t **at, const uint8_t *end, struct field *out) {
  if (*at >= end) return 0;
  uint64_t key = varint(at, end);
  out->number = (int)(key >> 3);
  out->bytes = NULL;
  switch (key & 7) {
    case 0: out->value = varint(at, end); break;
    case 1: *at += 8; break;
    case 5: *at += 4; break;
    default: out->value = varint(at, end); out->bytes = *at; *at += out->value;
  }
  return 1;
}

#define FIELDS(inside, whole) \
  for (const uint8_t *at_##inside = (whole).bytes, *end_##inside = at_##inside + (whole).value; \
       next(&at_##inside, end_##inside, &inside);)

static void text(char *out, size_t room, struct field from) {
  size_t length = from.value < room - 1 ? from.value : room - 1;
  memcpy(out, from.bytes, length);
  out[length] = 0;
}

static void read_tensor(struct tensor *out, struct field info, int is_input) {
  struct field a, b, c, d, e;
  memset(out, 0, sizeof *out);
  out->is_input = is_input;
  FIELDS(a, info) {
    if (a.number == 1) text(out->name, sizeof out->name, a);
    if (a.number == 2) FIELDS(b, a) if (b.number == 1) FIELDS(c, b) {
      if (c.number == 1) out->type = (int)c.value;
      if (c.number == 2) FIELDS(d, c) if (d.number == 1 && out->dims.rank < RANK) {
        int64_t *size = &out->dims.sizes[out->dims.rank];
        *size = -1;
        FIELDS(e, d) {
          if (e.number == 1) *size = (int64_t)e.value;
          if (e.number == 2) text(out->params[out->dims.rank], sizeof out->params[0], e);
        }
        out->dims.rank++;
      }
    }
  }
}

/* Inputs, outputs, types of initializers; whether each node is of the standard domain. */
static void read_graph(struct graph *out, const void *bytes, size_t size, char *standard) {
  struct field whole = {0, size, bytes}, model, part, inside;
  static _Thread_local struct tensor inputs[TENSORS];
  char (*weights)[256] = calloc(NODES, sizeof *weights);
  int weight_count = 0, input_count = 0;
  memset(out, 0, sizeof *out);
  out->magic = MAGIC;
  FIELDS(model, whole) if (model.number == 7) FIELDS(part, model) {
    if (part.number == 1 && out->nodes < NODES) {
      char domain[64] = "";
      FIELDS(inside, part) if (inside.number == 7) text(domain, sizeof domain, inside);
      if (standard) standard[out->nodes] = !*domain || !strcmp(domain, "ai.onnx");
      out->nodes++;
    }
    if (part.number == 5 && weight_count < NODES) FIELDS(inside, part) {
      if (inside.number == 2 && inside.value < 64) out->types |= 1ull << inside.value;
      if (inside.number == 8) text(weights[weight_count++], sizeof weights[0], inside);
    }
    if (part.number == 11 && input_count < TENSORS) read_tensor(&inputs[input_count++], part, 1);
    if (part.number == 12 && out->count < TENSORS) read_tensor(&out->tensors[out->count++], part, 0);
  }
  for (int one = 0; one < input_count && out->count < TENSORS; one++) {
    int is_weight = 0;
    for (int two = 0; two < weight_count; two++) is_weight |= !strcmp(weights[two], inputs[one].name);
    if (!is_weight) out->tensors[out->count++] = inputs[one];
  }
  for (int one = 0; one < out->count; one++) out->types |= 1ull << (out->tensors[one].type & 63);
  free(weights);
}

static struct tensor *named(struct graph *graph, const char *name) {
  for (int one = 0; one < graph->count; one++)
    if (!strcmp(graph->tensors[one].name, name)) return &graph->tensors[one];
  return NULL;
}

static struct tensor *numbered(struct graph *graph, int number, int is_input) {
  for (int one = 0; one < graph->count; one++)
    if (graph->tensors[one].is_input == is_input && number-- == 0) return &graph->tensors[one];
  return NULL;
}

/* nvinfer1::DataType of an ONNX type, and its bytes */
static int kind(int type) {
  switch (type) {
    case 10: return 1; case 3: return 2; case 6: return 3; case 9: return 4; case 2: return 5; case 17: return 6;
    case 16: return 7; case 7: return 8; case 22: return 9; default: return 0;
  }
}
static size_t width(int type) {
  switch (type) {
    case 7: case 11: return 8; case 10: case 16: return 2; case 2: case 3: case 9: case 17: return 1; default: return 4;
  }
}
