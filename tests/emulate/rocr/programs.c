/* Programs for HIP: each name that is given is one of them. 0 if all values are right.

   The kernels, in the file HIP_KERNELS, are compiled by HIP itself for the chip HIP_CHIP. */

#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(const char *what, int line)
{
    printf("line %d: %s\n", line, what);
    exit(1);
}

#define DO(call) \
    do { \
        hipError_t error = (call); \
        if (error) stop(hipGetErrorString(error), __LINE__); \
    } while (0)
#define CHECK(is_right) \
    if (!(is_right)) stop(#is_right, __LINE__)

enum { COUNT = 5000, GROUP = 128, GROUPS = (COUNT + GROUP - 1) / GROUP };

static hipModule_t module;

static void compile(void)
{
    static char source[1 << 16], option[64];
    FILE *file = fopen(getenv("HIP_KERNELS"), "r");
    CHECK(file && fread(source, 1, sizeof source - 1, file));
    fclose(file);
    snprintf(option, sizeof option, "--offload-arch=%s", getenv("HIP_CHIP"));
    const char *options[] = {option};
    hiprtcProgram program;
    CHECK(!hiprtcCreateProgram(&program, source, "kernels.hip", 0, NULL, NULL));
    if (hiprtcCompileProgram(program, 1, options)) {
        static char log[1 << 16];
        hiprtcGetProgramLog(program, log);
        stop(log, __LINE__);
    }
    size_t nbytes;
    CHECK(!hiprtcGetCodeSize(program, &nbytes));
    char *code = malloc(nbytes);
    CHECK(!hiprtcGetCode(program, code));
    DO(hipModuleLoadData(&module, code));
}

static void launch(
    const char *name, int groups, int group, int shared, hipStream_t stream, void **arguments)
{
    hipFunction_t function;
    DO(hipModuleGetFunction(&function, module, name));
    DO(hipModuleLaunchKernel(
        function, groups, 1, 1, group, 1, 1, shared, stream, arguments, NULL));
}

static float *floats(int count, float step)
{
    float *values = malloc(count * sizeof *values);
    for (int i = 0; i < count; i++) values[i] = i * step;
    return values;
}

static float *on_device(const float *values, int count)
{
    void *memory;
    DO(hipMalloc(&memory, count * sizeof *values));
    if (values) DO(hipMemcpy(memory, values, count * sizeof *values, hipMemcpyHostToDevice));
    return memory;
}

static void device(void)
{
    int count;
    size_t free, all;
    hipDeviceProp_t facts;
    DO(hipGetDeviceCount(&count));
    DO(hipGetDeviceProperties(&facts, 0));
    DO(hipMemGetInfo(&free, &all));
    printf("%d device: %s, %d units, %d lanes, %zu of %zu bytes\n", count, facts.gcnArchName,
           facts.multiProcessorCount, facts.warpSize, free, all);
    CHECK(count == 1 && !strncmp(facts.gcnArchName, getenv("HIP_CHIP"), 7));
    CHECK(facts.totalGlobalMem == all && all > 1 << 30 && free <= all);
}

static void vectors(void)
{
    int count = COUNT;
    float *host = floats(count, 0.5f), *a = on_device(host, count), *b = on_device(host, count);
    float *sum = on_device(NULL, count);
    void *arguments[] = {&sum, &a, &b, &count};
    launch("add", GROUPS, GROUP, 0, NULL, arguments);
    DO(hipMemcpy(host, sum, count * sizeof *host, hipMemcpyDeviceToHost));
    for (int i = 0; i < count; i++) CHECK(host[i] == i);
    DO(hipFree(sum));
    DO(hipFree(a));
    DO(hipFree(b));
}

/* Two streams, each with copies and kernels, and an event of one that the other waits for. */
static void streams(void)
{
    int count = COUNT;
    size_t nbytes = count * sizeof(float);
    hipStream_t stream[2];
    hipEvent_t event, ends;
    float *host[2], *memory[2], two = 2, three = 3;
    DO(hipEventCreate(&event));
    DO(hipEventCreate(&ends));
    for (int i = 0; i < 2; i++) {
        DO(hipStreamCreate(stream + i));
        DO(hipHostMalloc((void **)host + i, nbytes, 0));
        for (int j = 0; j < count; j++) host[i][j] = j;
        memory[i] = on_device(NULL, count);
    }
    for (int i = 0; i < 2; i++)
        DO(hipMemcpyAsync(memory[i], host[i], nbytes, hipMemcpyHostToDevice, stream[i]));
    void *doubled[] = {memory, &two, &count}, *tripled[] = {memory + 1, &three, &count};
    launch("scale", 8, GROUP, 0, stream[0], doubled);
    DO(hipEventRecord(event, stream[0]));
    launch("scale", 8, GROUP, 0, stream[1], tripled);
    DO(hipStreamWaitEvent(stream[1], event, 0));
    void *added[] = {memory + 1, memory, memory + 1, &count};
    launch("add", GROUPS, GROUP, 0, stream[1], added);
    DO(hipMemcpyAsync(host[1], memory[1], nbytes, hipMemcpyDeviceToHost, stream[1]));
    DO(hipEventRecord(ends, stream[1]));
    DO(hipEventSynchronize(ends));
    for (int j = 0; j < count; j++) CHECK(host[1][j] == 5 * j);
    float time;
    DO(hipEventElapsedTime(&time, event, ends));
    CHECK(time >= 0);
    for (int i = 0; i < 2; i++) {
        DO(hipStreamDestroy(stream[i]));
        DO(hipHostFree(host[i]));
        DO(hipFree(memory[i]));
    }
}

/* Copies of many sizes, of all kinds, of rows, and fills. */
static void copies(void)
{
    enum { ROWS = 48, WIDTH = 200, PITCH = 256 };
    for (size_t nbytes = 1; nbytes < 6 << 20; nbytes = nbytes * 5 + 3) {
        unsigned char *in = malloc(nbytes), *out = calloc(nbytes, 1), *a, *b;
        for (size_t i = 0; i < nbytes; i++) in[i] = i * 7 + nbytes;
        DO(hipMalloc((void **)&a, nbytes));
        DO(hipMalloc((void **)&b, nbytes));
        DO(hipMemcpy(a, in, nbytes, hipMemcpyHostToDevice));
        DO(hipMemcpy(b, a, nbytes, hipMemcpyDeviceToDevice));
        DO(hipMemset(a, 0x5A, nbytes));
        DO(hipMemcpy(out, b, nbytes, hipMemcpyDeviceToHost));
        CHECK(!memcmp(in, out, nbytes));
        DO(hipMemcpy(out, a, nbytes, hipMemcpyDeviceToHost));
        for (size_t i = 0; i < nbytes; i++) CHECK(out[i] == 0x5A);
        DO(hipFree(a));
        DO(hipFree(b));
        free(in);
        free(out);
    }
    static unsigned char in[ROWS][PITCH], out[ROWS][WIDTH];
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < PITCH; i++) in[row][i] = row * 17 + i * 11;
    void *memory;
    size_t pitch;
    DO(hipMallocPitch(&memory, &pitch, WIDTH, ROWS));
    DO(hipMemcpy2D(memory, pitch, in, PITCH, WIDTH, ROWS, hipMemcpyHostToDevice));
    DO(hipMemcpy2D(out, WIDTH, memory, pitch, WIDTH, ROWS, hipMemcpyDeviceToHost));
    for (int row = 0; row < ROWS; row++) CHECK(!memcmp(in[row], out[row], WIDTH));
    DO(hipFree(memory));
}

/* Memory of the program's own that a kernel reads and writes in place. */
static void registered(void)
{
    int count = COUNT;
    float *values = floats(count, 1), half = 0.5f;
    void *seen;
    DO(hipHostRegister(values, count * sizeof *values, 0));
    DO(hipHostGetDevicePointer(&seen, values, 0));
    void *arguments[] = {&seen, &half, &count};
    launch("scale", 4, GROUP, 0, NULL, arguments);
    DO(hipDeviceSynchronize());
    for (int i = 0; i < count; i++) CHECK(values[i] == i * 0.5f);
    DO(hipHostUnregister(values));
    for (int i = 0; i < count; i++) CHECK(values[i] == i * 0.5f);
    free(values);
}

static void shared(void)
{
    int count = COUNT;
    unsigned expected = 0, found, *sum, *memory;
    unsigned *values = malloc(count * sizeof *values);
    for (int i = 0; i < count; i++) expected += values[i] = i * 2654435761u;
    DO(hipMalloc((void **)&sum, sizeof *sum));
    DO(hipMalloc((void **)&memory, count * sizeof *values));
    DO(hipMemset(sum, 0, sizeof *sum));
    DO(hipMemcpy(memory, values, count * sizeof *values, hipMemcpyHostToDevice));
    void *arguments[] = {&sum, &memory, &count};
    launch("total", 6, GROUP, GROUP * sizeof *values, NULL, arguments);
    DO(hipMemcpy(&found, sum, sizeof found, hipMemcpyDeviceToHost));
    CHECK(found == expected);
    DO(hipFree(sum));
    DO(hipFree(memory));
    free(values);
}

/* A kernel with memory of each thread's own, for which the queue has none at first. */
static void scratch(void)
{
    enum { THREADS = 4 * 64, BYTES = THREADS * 64 };
    static unsigned char in[BYTES], out[BYTES];
    void *a, *b;
    for (int i = 0; i < BYTES; i++) in[i] = i * 13 + i / 64;
    DO(hipMalloc(&a, BYTES));
    DO(hipMalloc(&b, BYTES));
    DO(hipMemcpy(a, in, BYTES, hipMemcpyHostToDevice));
    void *arguments[] = {&a, &b};
    launch("backwards", 4, 64, 0, NULL, arguments);
    DO(hipMemcpy(out, b, BYTES, hipMemcpyDeviceToHost));
    for (int i = 0; i < BYTES; i++) CHECK(out[i] == in[i ^ 63]);
    DO(hipFree(a));
    DO(hipFree(b));
}

/* Memory that both sides use at one address. */
static void managed(void)
{
    int count = COUNT;
    float *values, third = 3;
    DO(hipMallocManaged((void **)&values, count * sizeof *values, hipMemAttachGlobal));
    for (int i = 0; i < count; i++) values[i] = i;
    void *arguments[] = {&values, &third, &count};
    launch("scale", GROUPS, GROUP, 0, NULL, arguments);
    DO(hipDeviceSynchronize());
    for (int i = 0; i < count; i++) CHECK(values[i] == 3 * i);
    DO(hipFree(values));
}

/* A stream that waits for a number in memory, and writes another there. */
static void waits(void)
{
    int count = COUNT;
    hipStream_t stream;
    float *host = floats(count, 1), *memory = on_device(host, count), two = 2;
    uint64_t *number;
    DO(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    DO(hipExtMallocWithFlags((void **)&number, sizeof *number, hipMallocSignalMemory));
    *number = 5;
    DO(hipStreamWaitValue64(stream, number, 5, hipStreamWaitValueGte, ~0ull));
    void *arguments[] = {&memory, &two, &count};
    launch("scale", GROUPS, GROUP, 0, stream, arguments);
    DO(hipStreamWriteValue64(stream, number, 6, 0));
    DO(hipStreamSynchronize(stream));
    CHECK(*number == 6);
    DO(hipMemcpy(host, memory, count * sizeof *host, hipMemcpyDeviceToHost));
    for (int i = 0; i < count; i++) CHECK(host[i] == 2 * i);
    DO(hipStreamDestroy(stream));
    DO(hipFree(number));
    DO(hipFree(memory));
    free(host);
}

/* A kernel that writes where no memory is: HIP ends the program. */
static void wild(void)
{
    int count = COUNT;
    float *nowhere = (float *)0x123456789000, two = 2;
    void *arguments[] = {&nowhere, &two, &count};
    launch("scale", GROUPS, GROUP, 0, NULL, arguments);
    DO(hipDeviceSynchronize());
}

static const struct {
    const char *name;
    void (*run)(void);
} programs[] = {
    {"device", device}, {"vectors", vectors}, {"streams", streams}, {"copies", copies},
    {"registered", registered}, {"shared", shared}, {"scratch", scratch},
    {"managed", managed}, {"waits", waits}, {"wild", wild},
};

int main(int count, char **names)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    compile();
    for (int i = 1; i < count; i++)
        for (size_t j = 0; j < sizeof programs / sizeof *programs; j++)
            if (!strcmp(names[i], programs[j].name)) {
                programs[j].run();
                printf("%s is right\n", names[i]);
            }
    return 0;
}
