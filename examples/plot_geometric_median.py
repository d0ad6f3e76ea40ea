"""
A private center of locations
=============================

Where is the center of a set of places on the globe, when whose places they are must stay secret and some of the
records are wrong? A seventh of the records here carry a mistake that real tables are full of: coordinates of 0 degrees
north, 0 degrees east, where geocoders send addresses that they do not know.

The geometric median of points on the unit sphere minimizes the mean distance to them. It needs no bounding box: the
sphere has radius 1, which is public. (Cities of 15,000 people or more: GeoNames, CC BY 4.0.)
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateGeometricMedian
from dpconvex.data import load_cities
from dpconvex.errors import RepeatedFitWarning
from dpconvex.solvers import geometric_median


def on_sphere(latitude, longitude):
    """Unit vectors (n, 3) of coordinates in degrees."""
    north, east = np.radians(latitude), np.radians(longitude)
    return np.column_stack([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)])


def in_degrees(point):
    """Latitude and longitude of the place on the sphere below a point."""
    x, y, z = point / np.linalg.norm(point)
    return np.degrees(np.arcsin(z)), np.degrees(np.arctan2(y, x))


def kilometers(point, other):
    """Distance on the globe between the places below two points."""
    cosine = point @ other / (np.linalg.norm(point) * np.linalg.norm(other))
    return 6371 * np.arccos(np.clip(cosine, -1, 1))


# %%
# The cities of Brazil
# --------------------
# The private median (epsilon 1) goes where the median without privacy goes, which the lost records move much less than
# the mean.

cities = load_cities()
country = np.asarray(cities["country"].to_pylist())
latitude, longitude = (cities[name].to_numpy() for name in ("latitude", "longitude"))
brazil = country == "BR"
lost = np.random.default_rng(0).random(brazil.sum()) < 1 / 7
north, east = np.where(lost, 0, latitude[brazil]), np.where(lost, 0, longitude[brazil])
X = on_sphere(north, east)

model = PrivateGeometricMedian(epsilon=1.0, delta=1e-6, radius_bound=1.0).fit(X)
print(f"{len(X)} records, status {model.status_}, cost epsilon {model.certificate_.spent_epsilon:.3g}")

truth = geometric_median(X[~lost]).point
exact = geometric_median(X).point
places = {"private median, epsilon 1": model.location_, "median": exact, "mean": X.mean(axis=0)}
for name, place in places.items():
    print(f"{name}: {kilometers(place, truth):.0f} km from the median of the records that are right")

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 4), layout="constrained")
left.plot(east, north, ".", color="0.75", markersize=3)
for (name, place), marker in zip(places.items(), "o+x", strict=True):
    there = in_degrees(place)
    left.plot(there[1], there[0], marker, markersize=9, markeredgewidth=2, markerfacecolor="none", label=name)
center = in_degrees(truth)
left.plot(center[1], center[0], "k.", label="median of the right records")
left.annotate(f"{lost.sum()} lost records", (0, 0), (-8, -6), ha="right", arrowprops={"arrowstyle": "->"}, fontsize=8)
left.set(xlabel="degrees east", ylabel="degrees north", title="Cities of Brazil, a seventh of them lost")
left.legend(fontsize=9, loc="lower right")

# %%
# What privacy costs
# ------------------
# Distance between the medians with and without privacy: the median and 10 % to 90 % of 10 runs for every epsilon. The
# cities are public, so all these runs cost nobody anything; on private data their epsilons would add up, and a warning
# would say so.

epsilons = [0.5, 0.7, 1, 2, 4, 8]
runs = range(10)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", RepeatedFitWarning)
    off = [
        [kilometers(PrivateGeometricMedian(e, 1e-6, radius_bound=1.0).fit(X).location_, exact) for _ in runs]
        for e in epsilons
    ]
right.fill_between(epsilons, np.quantile(off, 0.1, axis=1), np.quantile(off, 0.9, axis=1), alpha=0.2)
right.plot(epsilons, np.median(off, axis=1), "o-")
right.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="km from the median without privacy", xticks=epsilons)
right.set_title("Cost of privacy")
right.set_xticklabels([f"{e:g}" for e in epsilons])
right.minorticks_off()
plt.show()
