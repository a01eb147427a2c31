// More rows for nvml_parts.h, same columns; included by that header alone. What GPM tells of single engines,
// caches and cycles: shares in %, cycles since the machine was started.
#pragma once

#define GPULENS_NVML_GPM_MORE_FIELDS(X) \
  X(GpmDecoder0, 30)                    \
  X(GpmDecoder1, 31)                    \
  X(GpmDecoder2, 32)                    \
  X(GpmDecoder3, 33)                    \
  X(GpmDecoder4, 34)                    \
  X(GpmDecoder5, 35)                    \
  X(GpmDecoder6, 36)                    \
  X(GpmDecoder7, 37)                    \
  X(GpmJpeg0, 40)                       \
  X(GpmJpeg1, 41)                       \
  X(GpmJpeg2, 42)                       \
  X(GpmJpeg3, 43)                       \
  X(GpmJpeg4, 44)                       \
  X(GpmJpeg5, 45)                       \
  X(GpmJpeg6, 46)                       \
  X(GpmJpeg7, 47)                       \
  X(GpmOpticalFlow0, 50)                \
  X(GpmOpticalFlow1, 51)                \
  X(GpmHitHost, 160)                    \
  X(GpmHitPeer, 162)                    \
  X(GpmHitDram, 164)                    \
  X(GpmEncoder0, 166)                   \
  X(GpmEncoder1, 167)                   \
  X(GpmEncoder2, 168)                   \
  X(GpmEncoder3, 169)                   \
  X(GpmCycles, 248)                     \
  X(GpmCyclesSm, 249)                   \
  X(GpmCyclesTensor, 250)               \
  X(GpmCyclesDmma, 251)                 \
  X(GpmCyclesHmma, 252)                 \
  X(GpmCyclesImma, 253)                 \
  X(GpmCyclesDfma, 254)                 \
  X(GpmCyclesInt, 257)                  \
  X(GpmCyclesFp64, 258)                 \
  X(GpmCyclesFp32, 259)                 \
  X(GpmCyclesFp16, 260)
