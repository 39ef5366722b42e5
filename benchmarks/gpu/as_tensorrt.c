/* What ONNX Runtime's TensorRT provider calls, for a machine without TensorRT; compiled with as_gpu.c by as_gpu.py.

   The parser takes every node of the standard domain. An "engine" is the list of inputs and outputs of a part of the
   graph; running it writes zeros. What is refused is what TensorRT 10 refuses before it builds: precision flags in a
   strongly typed network, types in a weakly typed one whose flag is missing, profiles in which a size is out of order.
   With AS_GPU_ENGINES each build appends a line of JSON to that file: flags, profile, inputs.

   Objects of TensorRT are a table of methods and an implementation with a table of its own, whose first two entries
   are destructors; the numbers below are places in it (NvInferImpl.h of TensorRT 10). */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "as_tensorrt_graph.h"

#define EXPORT __attribute__((visibility("default")))
enum { METHODS = 128, STRONGLY_TYPED = 1 };

typedef void *(*method)(void);
struct object { method *methods; struct object *inside; };
struct bounds { char name[256]; struct dims sizes[3]; };

static void *nothing(void) { return NULL; }
static void *yes(void) { return (void *)1; }

/* A table in which nothing does something yet. */
static method *table(void) {
  method *methods = calloc(METHODS, sizeof *methods);
  for (int one = 0; one < METHODS; one++) methods[one] = nothing;
  return methods;
}

/* An object whose implementation has these methods; what it knows lies behind it. */
static struct object *made(method *methods, size_t bytes) {
  static method *outer;
  if (!outer) outer = table();
  struct object *found = calloc(1, sizeof *found * 2 + bytes);
  found->methods = outer;
  found->inside = found + 1;
  found->inside->methods = methods;
  return found;
}
#define KNOWN(self, type) ((type *)((struct object *)(self) + 1)) /* self is the implementation */

/* ---- ITensor, INetworkDefinition ---- */

struct network { struct graph graph; uint32_t flags; };

static const char *tensor_name(void *self) { return (*KNOWN(self, struct tensor *))->name; }
static struct dims *tensor_dims(struct dims *out, void *self) {
  *out = (*KNOWN(self, struct tensor *))->dims;
  return out;
}
static int tensor_type(void *self) { return kind((*KNOWN(self, struct tensor *))->type); }

static void *tensor_of(void *self, int number, int is_input) {
  static method *methods;
  if (!methods) {
    methods = table();
    methods[3] = (method)tensor_name;
    methods[5] = (method)tensor_dims;
    methods[7] = (method)tensor_type;
  }
  struct tensor *found = numbered(&KNOWN(self, struct network)->graph, number, is_input);
  struct object *tensor = made(methods, sizeof found);
  *KNOWN(tensor->inside, struct tensor *) = found;
  return tensor;
}
static void *network_input(void *self, int number) { return tensor_of(self, number, 1); }
static void *network_output(void *self, int number) { return tensor_of(self, number, 0); }
static int counted(struct graph *graph, int is_input) {
  int count = 0;
  while (numbered(graph, count, is_input)) count++;
  return count;
}
static int network_inputs(void *self) { return counted(&KNOWN(self, struct network)->graph, 1); }
static int network_outputs(void *self) { return counted(&KNOWN(self, struct network)->graph, 0); }

static void *network(void *builder, uint32_t flags) {
  static method *methods;
  if (!methods) {
    methods = table();
    methods[14] = (method)network_inputs;
    methods[15] = (method)network_input;
    methods[16] = (method)network_outputs;
    methods[17] = (method)network_output;
  }
  struct object *found = made(methods, sizeof(struct network));
  KNOWN(found->inside, struct network)->flags = flags;
  return found;
}

/* ---- IParser: its methods are its own; runs of nodes of one kind are its subgraphs ---- */

struct parser { method *methods; struct network *network; char standard[NODES]; int64_t nodes[NODES], starts[NODES]; };

static int parse(struct parser *self, const void *bytes, size_t size, const char *path) {
  read_graph(&self->network->graph, bytes, size, self->standard);
  return 1;
}
static int supports(struct parser *self, const void *bytes, size_t size, const char *path) {
  parse(self, bytes, size, path);
  struct graph *graph = &self->network->graph;
  for (int one = 0; one < graph->nodes; one++) {
    self->nodes[one] = one;
    if (!one || self->standard[one] != self->standard[one - 1]) self->starts[graph->runs++] = one;
  }
  return graph->runs == 1 && self->standard[0];
}
static int64_t subgraphs(struct parser *self) { return self->network->graph.runs; }
static int supported(struct parser *self, int64_t number) { return self->standard[self->starts[number]]; }
static int64_t *nodes_of(struct parser *self, int64_t number, int64_t *length) {
  struct graph *graph = &self->network->graph;
  int64_t end = number + 1 < graph->runs ? self->starts[number + 1] : graph->nodes;
  *length = end - self->starts[number];
  return self->nodes + self->starts[number];
}

EXPORT void *createNvOnnxParser_INTERNAL(struct object *network, void *logger, int version) {
  struct parser *found = calloc(1, sizeof *found);
  found->methods = table();
  found->network = KNOWN(network->inside, struct network);
  found->methods[0] = (method)parse;
  found->methods[17] = (method)supports;
  found->methods[18] = (method)subgraphs;
  found->methods[19] = (method)supported;
  found->methods[20] = (method)nodes_of;
  return found;
}

/* ---- profiles, IBuilderConfig, IHostMemory ---- */

struct profile { int count; struct bounds bounds[TENSORS]; };
struct config { uint32_t flags; struct profile *profile; };
struct memory { size_t size; void *bytes; };

static int profile_dims(void *self, const char *name, int which, const struct dims *dims) {
  struct profile *profile = KNOWN(self, struct profile);
  int one = 0;
  while (one < profile->count && strcmp(profile->bounds[one].name, name)) one++;
  if (one == profile->count) profile->count++;
  snprintf(profile->bounds[one].name, sizeof profile->bounds[one].name, "%s", name);
  profile->bounds[one].sizes[which] = *dims; /* 0 min, 1 opt, 2 max */
  return 1;
}
static void *profile(void) {
  static method *methods;
  if (!methods) {
    methods = table();
    methods[2] = (method)profile_dims;
    methods[4] = methods[7] = methods[9] = yes;
  }
  return made(methods, sizeof(struct profile));
}

static void *memory_bytes(void *self) { return KNOWN(self, struct memory)->bytes; }
static size_t memory_size(void *self) { return KNOWN(self, struct memory)->size; }
static void *memory(const void *bytes, size_t size) {
  static method *methods;
  if (!methods) {
    methods = table();
    methods[2] = (method)memory_bytes;
    methods[3] = (method)memory_size;
  }
  struct object *found = made(methods, sizeof(struct memory));
  struct memory *known = KNOWN(found->inside, struct memory);
  known->bytes = memcpy(malloc(size), bytes, size);
  known->size = size;
  return found;
}
static void *timings(void *self) { return memory("timings", 7); }
static void *timing_cache(void) {
  static method *methods;
  if (!methods) {
    methods = table();
    methods[2] = (method)timings;
  }
  return made(methods, 8);
}

static void config_flag(void *self, int flag) { KNOWN(self, struct config)->flags |= 1u << flag; }
static int config_profile(void *self, struct object *profile) {
  KNOWN(self, struct config)->profile = KNOWN(profile->inside, struct profile);
  return 0;
}
static void *config(void) {
  static method *methods;
  if (!methods) {
    methods = table();
    methods[11] = (method)config_flag;
    methods[25] = (method)config_profile;
    methods[40] = methods[42] = timing_cache;
    methods[41] = yes;
  }
  return made(methods, sizeof(struct config));
}

/* ---- IExecutionContext: zeros in outputs, of the sizes that names of dimensions tell ---- */

struct context { struct graph *graph; struct dims shapes[TENSORS]; void *places[TENSORS]; };

static int place_of(struct context *known, const char *name) {
  struct tensor *found = named(known->graph, name);
  return found ? (int)(found - known->graph->tensors) : 0;
}
static int set_shape(void *self, const char *name, const struct dims *dims) {
  struct context *known = KNOWN(self, struct context);
  known->shapes[place_of(known, name)] = *dims;
  return 1;
}
static int64_t size_named(struct context *known, const char *param) {
  for (int one = 0; *param && one < known->graph->count; one++)
    for (int axis = 0; known->graph->tensors[one].is_input && axis < known->graph->tensors[one].dims.rank; axis++)
      if (!strcmp(known->graph->tensors[one].params[axis], param)) return known->shapes[one].sizes[axis];
  return 1;
}
static struct dims *shape_now(struct dims *out, void *self, const char *name) {
  struct context *known = KNOWN(self, struct context);
  struct tensor *tensor = &known->graph->tensors[place_of(known, name)];
  *out = tensor->is_input && known->shapes[place_of(known, name)].rank ? known->shapes[place_of(known, name)] : tensor->dims;
  for (int axis = 0; axis < out->rank; axis++)
    if (out->sizes[axis] < 0) out->sizes[axis] = size_named(known, tensor->params[axis]);
  return out;
}
static int set_place(void *self, const char *name, void *bytes) {
  struct context *known = KNOWN(self, struct context);
  known->places[place_of(known, name)] = bytes;
  return 1;
}
static int enqueue(void *self, void *stream) {
  struct context *known = KNOWN(self, struct context);
  for (int one = 0; one < known->graph->count; one++) {
    struct tensor *tensor = &known->graph->tensors[one];
    if (tensor->is_input || !known->places[one]) continue;
    struct dims shape;
    shape_now(&shape, self, tensor->name);
    size_t bytes = width(tensor->type);
    for (int axis = 0; axis < shape.rank; axis++) bytes *= shape.sizes[axis];
    memset(known->places[one], 0, bytes);
  }
  return 1;
}
static void *context(struct graph *graph) {
  static method *methods;
  if (!methods) {
    methods = table();
    methods[17] = methods[26] = methods[32] = yes;
    methods[21] = (method)set_shape;
    methods[22] = (method)shape_now;
    methods[24] = methods[26] = methods[27] = (method)set_place;
    methods[37] = (method)enqueue;
  }
  struct object *found = made(methods, sizeof(struct context));
  KNOWN(found->inside, struct context)->graph = graph;
  return found;
}

/* ---- ICudaEngine, IRuntime ---- */

static struct graph *graph_of(void *self) { return *KNOWN(self, struct graph *); }
static void *engine_memory(void *self) { return memory(graph_of(self), sizeof(struct graph)); }
static void *engine_context(void *self) { return context(graph_of(self)); }
static struct dims *engine_dims(struct dims *out, void *self, const char *name) {
  struct tensor *found = named(graph_of(self), name);
  *out = found->dims;
  return out;
}
static int engine_type(void *self, const char *name) { return kind(named(graph_of(self), name)->type); }
static int engine_mode(void *self, const char *name) { return named(graph_of(self), name)->is_input ? 1 : 2; }
static int engine_tensors(void *self) { return graph_of(self)->count; }
static const char *engine_name(void *self, int number) { return graph_of(self)->tensors[number].name; }

static void *engine(void *runtime, const void *bytes, size_t size) {
  static method *methods;
  if (!methods) {
    methods = table();
    methods[4] = (method)engine_memory;
    methods[5] = methods[6] = (method)engine_context;
    methods[10] = yes;
    methods[19] = (method)engine_dims;
    methods[20] = (method)engine_type;
    methods[23] = (method)engine_mode;
    methods[30] = (method)engine_tensors;
    methods[31] = (method)engine_name;
  }
  if (size != sizeof(struct graph) || ((const struct graph *)bytes)->magic != MAGIC) return NULL;
  struct object *found = made(methods, sizeof(struct graph *));
  *KNOWN(found->inside, struct graph *) = memcpy(malloc(size), bytes, size);
  return found;
}

EXPORT void *createInferRuntime_INTERNAL(void *logger, int version) {
  static method *methods;
  if (!methods) {
    methods = table();
    methods[3] = (method)engine;
  }
  return made(methods, 8);
}

/* ---- IBuilder: what is refused, and what is built ---- */

struct builder { void *logger; };

static void *refused(void *self, const char *why) {
  void *logger = KNOWN(self, struct builder)->logger;
  enum { ERROR = 1 };
  if (logger) (*(void (***)(void *, int, const char *))logger)[0](logger, ERROR, why);
  return NULL;
}

static const char *objection(struct network *network, struct config *config) {
  enum { FP16 = 0, INT8 = 1, FP8 = 15, BF16 = 17, INT4 = 22 };                 /* nvinfer1::BuilderFlag */
  static const struct { int type, flag; const char *why; } rules[] = {        /* types of ONNX */
      {10, FP16, "a tensor is Half in a weakly typed network, and kFP16 is not set"},
      {16, BF16, "a tensor is BFloat16 in a weakly typed network, and kBF16 is not set"},
      {3, INT8, "a tensor is Int8 in a weakly typed network, and kINT8 is not set"},
      {17, FP8, "a tensor is FP8 in a weakly typed network, and kFP8 is not set"},
      {22, INT4, "a tensor is Int4 in a weakly typed network, and kINT4 is not set"},
  };
  int strongly = network->flags >> STRONGLY_TYPED & 1;
  for (size_t one = 0; one < sizeof rules / sizeof *rules; one++) {
    int set = config->flags >> rules[one].flag & 1;
    if (strongly && set) return "a flag of precision is set, and the network is strongly typed";
    if (!strongly && !set && network->graph.types >> rules[one].type & 1) return rules[one].why;
  }
  for (int one = 0; one < network->graph.count; one++) {
    struct tensor *tensor = &network->graph.tensors[one];
    for (int axis = 0; tensor->is_input && axis < tensor->dims.rank; axis++) {
      struct bounds *found = NULL;
      if (tensor->dims.sizes[axis] >= 0) continue;
      for (int two = 0; config->profile && two < config->profile->count; two++)
        if (!strcmp(config->profile->bounds[two].name, tensor->name)) found = &config->profile->bounds[two];
      if (!found) return "a dynamic input has no optimization profile";
      if (found->sizes[0].sizes[axis] > found->sizes[1].sizes[axis]) return "kMIN is greater than kOPT in a profile";
      if (found->sizes[1].sizes[axis] > found->sizes[2].sizes[axis]) return "kOPT is greater than kMAX in a profile";
    }
  }
  return NULL;
}

static void tell_built(struct network *network, struct config *config, const char *why) {
  const char *path = getenv("AS_GPU_ENGINES");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (!file) return;
  fprintf(file, "{\"network\": %u, \"flags\": %u, \"nodes\": %d, \"types\": %llu, \"refused\": \"%s\"}\n",
          network->flags, config->flags, network->graph.nodes,
          (unsigned long long)network->graph.types, why ? why : "");
  fclose(file);
}

static void *built(void *self, struct object *network, struct object *config) {
  struct network *net = KNOWN(network->inside, struct network);
  struct config *how = KNOWN(config->inside, struct config);
  const char *why = objection(net, how);
  tell_built(net, how, why);
  return why ? refused(self, why) : memory(&net->graph, sizeof net->graph);
}

EXPORT void *createInferBuilder_INTERNAL(void *logger, int version) {
  static method *methods;
  if (!methods) {
    methods = table();
    methods[2] = methods[3] = yes;
    methods[7] = config;
    methods[8] = (method)network;
    methods[9] = profile;
    methods[14] = (method)built;
  }
  struct object *found = made(methods, sizeof(struct builder));
  KNOWN(found->inside, struct builder)->logger = logger;
  return found;
}

EXPORT int getInferLibVersion(void) { return 101400; }
EXPORT void *getPluginRegistry(void) { return made(table(), 8); }
EXPORT void *createInferRefitter_INTERNAL(void *engine, void *logger, int version) { return made(table(), 8); }
EXPORT void *createNvOnnxParserRefitter_INTERNAL(void *refitter, void *logger, int version) { return made(table(), 8); }
