"""Workers in rows and columns join at the rate of a row of workers, and answer thousands of times sooner.

One window is cut up among the rows, the other among the columns, and every pair meets where they cross: all of a new
tuple's comparisons run at once. Output reaches what the streams can give (equation 3) with as many workers as any
other layout, the square layout has the least latency when the streams are alike (equations 5 to 7), a rectangular
one when they are not, and Handshake Join's results come seconds to minutes later.
"""
