/* plan_hardware.c - the hardware that a plan is for, and the device that follows from it. */
#include "study/study.h"

/* Whether programs of a device may be timed as those of `other`, which a hardware file names. Devices that compute
 * nothing have every kernel; the plain kernels are those of a CPU. */
static int stands_for(const char *device, const char *other) {
    const tri_device *found = tri__device_find(device);
    return strcmp(device, other) == 0 || (found && found->is_stub) ||
           (strcmp(device, "reference") == 0 && strcmp(other, "cpu") == 0);
}

static tri_status open_hardware(tri_study *p, const char *text) {
    TRI_TRY(tri__arena_open(&p->arena, 0));
    return tri__hardware_open(&p->arena, text, &p->hardware);
}

/* A device whose plug-in is missing is planned for by the data of a hardware file. */
static tri_status open_absent(tri_settings *s, tri_study *p, const tri_log *log) {
    const tri_device *device;
    tri_words why;
    if (tri__device_get(s->device, &device) == TRI_OK) return TRI_OK;
    tri__words_keep(&why);
    TRI_TRY(open_hardware(p, s->calibrated ? s->calibrated : tri__hardware_of(s->device)));
    if (!p->hardware.target) {
        tri__words_restore(&why);
        return TRI_USAGE;
    }
    tri__say(log, TRI_LOG_INFO, "there is no %s device here: planned for %s", s->device, p->hardware.name);
    return TRI_OK;
}

tri_status tri__study_hardware(tri_settings *s, tri_study *p, const tri_log *log) {
    if (p->runs) return TRI_OK;
    if (!s->hardware) return open_absent(s, p, log);
    TRI_TRY(open_hardware(p, s->hardware));
    const char *device = p->hardware.device;
    if (!device) return TRI_OK;
    if (!p->hardware.target && tri__device_check(device) != TRI_OK)
        return tri__fail(TRI_DATA, "%s: device: there is no device %s, and no target describes it", p->hardware.name,
                         device);
    if (!tri__settings_given(s, &s->device)) s->device = (char *)device; /* only read: s is a copy */
    if (stands_for(s->device, device)) return TRI_OK;
    return tri__fail(TRI_USAGE, "--device %s: %s describes a %s device; leave --device out, or give other --hardware",
                     s->device, p->hardware.name, device);
}
