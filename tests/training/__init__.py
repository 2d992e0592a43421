"""Does training through compiled code leave what training in eager leaves?"""
