"""The messages that are played, with Objective-C's encodings of what they return and take.

    SIGNATURES["newBufferWithLength:options:"]   ->  "@QQ": an object, of two unsigned numbers

The letters are those of Objective-C's type encodings: `@` an object, `Q` and `q` numbers of 64
bits, `Z` a BOOL, `d` a double, `v` nothing, `n^v` bytes that are read, `^v` memory, `n^@` several
objects, `o^@` an NSError that comes back, and by short names `S` an MTLSize, `R` an NSRange. The
tests compare all of them with what pyobjc publishes of Metal.
"""

from __future__ import annotations

import re

__all__ = ["SIGNATURES", "arguments_of"]

SIGNATURES = {
    # NSError
    "code": "q", "localizedDescription": "@",
    # MTLDevice
    "name": "@", "supportsFamily:": "Zq", "maxBufferLength": "Q",
    "recommendedMaxWorkingSetSize": "Q",
    "newCommandQueueWithMaxCommandBufferCount:": "@Q",
    "newBufferWithLength:options:": "@QQ",
    "newLibraryWithSource:options:error:": "@@@o^@",
    "newComputePipelineStateWithDescriptor:options:reflection:error:": "@@Q^@o^@",
    "newIndirectCommandBufferWithDescriptor:maxCommandCount:options:": "@@QQ",
    # MTLCompileOptions
    "setMathMode:": "vq", "setLanguageVersion:": "vQ",
    # MTLLibrary, MTLComputePipelineDescriptor, MTLComputePipelineState
    "newFunctionWithName:": "@@",
    "setComputeFunction:": "v@", "setMaxTotalThreadsPerThreadgroup:": "vQ",
    "setSupportIndirectCommandBuffers:": "vZ",
    "maxTotalThreadsPerThreadgroup": "Q",
    # MTLBuffer
    "contents": "^v", "length": "Q", "storageMode": "Q", "device": "@",
    # MTLCommandQueue, MTLCommandBuffer
    "commandBuffer": "@", "computeCommandEncoder": "@", "commit": "v", "waitUntilCompleted": "v",
    "status": "q", "error": "@", "GPUStartTime": "d", "GPUEndTime": "d",
    # MTLComputeCommandEncoder
    "setComputePipelineState:": "v@", "setBuffer:offset:atIndex:": "v@QQ",
    "setBytes:length:atIndex:": "vn^vQQ",
    "dispatchThreadgroups:threadsPerThreadgroup:": "vSS",
    "useResources:count:usage:": "vn^@QQ", "executeCommandsInBuffer:withRange:": "v@R",
    "endEncoding": "v",
    # MTLIndirectCommandBufferDescriptor, MTLIndirectCommandBuffer, MTLIndirectComputeCommand
    "setCommandTypes:": "vQ", "setInheritBuffers:": "vZ", "setInheritPipelineState:": "vZ",
    "setMaxKernelBufferBindCount:": "vQ",
    "indirectComputeCommandAtIndex:": "@Q",
    "setKernelBuffer:offset:atIndex:": "v@QQ",
    "concurrentDispatchThreadgroups:threadsPerThreadgroup:": "vSS", "setBarrier": "v",
}  # fmt: skip
_TYPES = re.compile(r"n\^v|n\^@|o\^@|\^@|\^v|[@QqZdvSR]")


def arguments_of(selector: str) -> list[str]:
    """The encodings of what a message takes."""
    return _TYPES.findall(SIGNATURES[selector])[1:]
