/* null.h - the devices that compute nothing. */
#ifndef TRI_DEVICE_NULL_NULL_H
#define TRI_DEVICE_NULL_NULL_H

#include "device/device.h"

extern const tri_device tri__device_null, tri__device_timed;

#endif
