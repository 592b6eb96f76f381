# An image that could not be prepared at the start is tried again for every request.
# group: roots
# opens: image-that-is-made-later
# file: boxd/image/images.c
s/r = named->ready \? 0 : refuse_unready\(named, err\);/r = named->ready ? 0 : prepare(images, named, err);/
