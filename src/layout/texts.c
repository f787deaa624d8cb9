/* texts.c - texts and their encoders. */
#include "layout/texts.h"

int tri__reader_place(const tri_readers *readers, int text) {
    int place = 0;
    for (int t = 0; t < text; t++) place += tri__reader(readers, t) == tri__reader(readers, text);
    return place;
}

const char *tri__branch_name(int text) {
    static const char *const names[TRI_TEXTS_MAX] = {"primary", "secondary", "text3",  "text4",  "text5",  "text6",
                                                     "text7",   "text8",     "text9",  "text10", "text11", "text12",
                                                     "text13",  "text14",    "text15", "text16"};
    return names[text];
}
